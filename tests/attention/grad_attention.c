/* Every mechanism of attn_table between its projections, in every combination of its own choices
 * and switches. MECHANISM=name: that one alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "sublayer.h"

/* LONG: a shape of more tokens than a job has, checked in one variant. */
enum { TRIES = 16, LONG = GRAD_SHAPES };

typedef struct Attention {
    Sublayer layer;
    GradTensor *x, *y;
    GradCase *c;
    bool called;
    uint64_t choices; /* of the first call */
} Attention;

static int shortcuts, whole; /* calls that left operations out, and others */

static void forward(void *ctx) {
    Attention *o = ctx;
    Sublayer *s = &o->layer;
    memcpy(s->X, o->x->x, o->x->n * sizeof *s->X);
    sublayer_forward(s);
    memcpy(o->y->x, s->Y, o->y->n * sizeof *s->Y);
    if (!o->called) o->choices = s->trace.digest;
    o->called = true;
    if (o->choices != s->trace.digest) o->c->jumped = true;
    s->meter.avoided != 0 ? shortcuts++ : whole++;
}

static void backward(void *ctx) {
    Attention *o = ctx;
    memcpy(o->layer.dY, o->y->dx, o->y->n * sizeof *o->y->dx);
    sublayer_backward(&o->layer);
    for (size_t i = 0; i < o->x->n; i++) o->x->dx[i] += o->layer.dX[i];
}

/* What gradients of parameters hold before the pass must still be in them after it. */
static void open_case(Attention *o, GradCase *c) {
    Sublayer *s = &o->layer;
    const size_t rows = (size_t)s->N * (size_t)s->d;
    draw_normals(&c->draws, s->dw, s->params.total, 0, 1e-3);
    o->x = grad_input(c, "X", rows, 1);
    for (int i = 0; i < s->params.count; i++) {
        const Param *p = &s->params.list[i];
        grad_input_at(c, p->name, s->w + p->at, s->dw + p->at, p->n)->fixed =
            !(p->flags & PARAM_TRAINED);
    }
    o->y = grad_output(c, "Y", rows);
    o->c = c;
}

/* Sizes of a case. The first shapes are the edges. */
typedef struct Shape {
    int N, h, e;
    MechSizes sizes;
} Shape;

/* Where heads have groups of their own, many choices are never all far from others. */
static Shape draw_shape(const AttnMech *m, Draws *d, int index) {
    Shape s = {draw_size(d, 17), draw_int(d, 1, 3), draw_int(d, 1, 4), {0}};
    s.sizes.number = draw_int(d, 1, 6);
    s.sizes.size = draw_int(d, 1, 7);
    switch (index) {
    case 0: s.N = 1; break;
    case 1: s.h = s.e = 1; break;
    case 2: s.h = 1; break;
    case 3: s.e = 1, s.h = 4; break;
    case 4: s.sizes.number = 1; break;
    case 5: s.sizes.size = 1; break;
    case 6: s.sizes.size = s.N + 3; break;
    case 7: s.N = 17, s.sizes = (MechSizes){5, 2}; break; /* tokens left over */
    case 8: s.N = 6, s.sizes.number = 9; break;           /* more clusters than tokens */
    case 9: s.N = 64; break; /* a whole block of tokens, one more, and three blocks */
    case 10: s.N = 65; break;
    case 11: s.N = 130, s.e = 2; break;
    case 12: s = (Shape){70, 1, 1, {66, 9}}; break; /* windows of more than a tile of queries */
    case LONG: s = (Shape){ATTN_TILE + 4, 2, 3, {3, 7}}; break;
    default: break;
    }
    if (m->groups && s.N > 20) s.h = 1, s.sizes.number = 60 + index;
    if (m->groups && index == LONG) s.e = 6, s.sizes.number = s.N;
    return s;
}

typedef enum Outcome { REFUSED, ON_THE_EDGE, DONE } Outcome;

/* One draw of a case. Of an odd number of tokens q, k and v are kept. REFUSED: the mechanism does
 * not take the keys. */
static Outcome check_draw(const AttnMech *m, const char *keys, Shape s, Draws d, bool directions) {
    const int length = s.N + draw_int(&d, 0, 1) * draw_int(&d, 0, 9);
    const AttnShape shape = {s.h * s.e, s.h, s.e, length + length % 2, length, s.N % 2};
    Err err;
    void *self = mech_open(m, keys, &shape, &err);
    if (!self) return REFUSED;
    Attention o = {.called = false};
    GradCase c;
    sublayer_open(&o.layer, m, self, s.N, &d);
    const bool rope = s.e % 2 == 0 && draw_int(&d, 0, 2);
    if (rope) sublayer_turn(&o.layer);
    grad_open(&c, d, "%s, N %d, h %d, e %d%s", keys, s.N, s.h, s.e, rope ? ", rope" : "");
    open_case(&o, &c);
    c.directions = directions;
    const bool done = grad_check(&c, forward, backward, &o);
    grad_close(&c);
    sublayer_close(&o.layer);
    free(self);
    return done ? DONE : ON_THE_EDGE;
}

/* Draws until no choice is on the edge of another. False: the mechanism refuses the variant. */
static bool check_shape(const AttnMech *m, int variant, int index) {
    for (int try = 0; try < TRIES; try++) {
        Draws d =
            draws_open("attention", (uint64_t)((variant * GRAD_SHAPES + index) * TRIES + try));
        const Shape s = draw_shape(m, &d, index);
        char text[MECH_TEXT];
        mech_print(text, m, variant, s.sizes);
        const Outcome outcome = check_draw(m, text, s, d, index == LONG);
        if (outcome != ON_THE_EDGE) return outcome == DONE;
    }
    fail_msg("%s: no choices far from others in %d draws", m->name, TRIES);
    return false;
}

static void every_mechanism(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        int variants = 0;
        if (!mech_wanted(attn_table[i])) continue;
        shortcuts = whole = 0;
        for (int v = 0; v < mech_variants(attn_table[i]); v++) {
            if (!check_shape(attn_table[i], v, 0)) continue;
            variants++;
            for (int s = 1; s < GRAD_SHAPES; s++) check_shape(attn_table[i], v, s);
            if (variants == 1) check_shape(attn_table[i], v, LONG);
        }
        assert_true(variants > 0);
        if (attn_table[i] == &attn_cast) assert_true(shortcuts > 100 && whole > 100);
        printf("# %d variants\n", variants);
        grad_report(attn_table[i]->name);
    }
}

/* Few of many keys, of more than one tile, so that what is chosen differs from what is not: the
 * walk's long shape chooses them all. */
static void some_of_many_keys(void **state) {
    (void)state;
    const AttnMech *m = attn_find("i-clustered");
    Outcome outcome = ON_THE_EDGE;
    if (!mech_wanted(m)) return;
    for (int try = 0; try < TRIES && outcome == ON_THE_EDGE; try++)
        outcome =
            check_draw(m, "\"clusters\":2,\"bits\":1,\"iterations\":1,\"top_k\":5",
                       (Shape){ATTN_TILE + 4, 1, 6, {0}}, draws_open("some", (uint64_t)try), true);
    assert_int_equal(outcome, DONE);
    grad_report("i-clustered, 5 of 260 keys");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mechanism),
                                       cmocka_unit_test(some_of_many_keys)};
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
