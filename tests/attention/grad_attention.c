/* Every mechanism of attn_table between its projections, in every combination of its own choices
 * and switches. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/layer.h"
#include "gradcheck.h"
#include "ops/linear.h"

enum { TRIES = 8, PROJECTIONS = 4 };

typedef struct Projection {
    GradTensor *w, *b;
    real *wt;
} Projection;

typedef struct Attention {
    AttnLayer layer;
    AttnActs acts;
    AttnScratch scratch;
    Arena kept, passing; /* their memory */
    GradTensor *x, *y, *own[ATTN_PARAMS];
    Projection of[PROJECTIONS]; /* q, k, v, o */
    ParamSpec specs[ATTN_PARAMS];
    int nown, C, slots;
    AttnTap tap;
    int *clusters, *first; /* as sets: each sorted */
    size_t at_forward;     /* calls so far */
    GradCase *c;
} Attention;

static void *block(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p) abort();
    poison(p, bytes);
    return p;
}

/* ---- one call ---- */

static int by_value(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The clusters of the first call are the case's; later ones may only list them in another order. */
static void watch_clusters(Attention *o) {
    const size_t n = (size_t)o->C * (size_t)o->slots;
    for (int i = 0; i < o->C; i++)
        qsort(o->clusters + i * o->slots, (size_t)o->slots, sizeof *o->clusters, by_value);
    if (!o->at_forward++) memcpy(o->first, o->clusters, n * sizeof *o->first);
    if (memcmp(o->first, o->clusters, n * sizeof *o->first) != 0) o->c->jumped = true;
}

/* The layer with the weights of now. What it is not to rely on is poison. */
static const AttnLayer *layer_now(Attention *o) {
    AttnLayer *l = &o->layer;
    AttnLinear *const to[PROJECTIONS] = {&l->q, &l->k, &l->v, &l->o};
    for (int i = 0; i < PROJECTIONS; i++) {
        const Projection *p = &o->of[i];
        transpose(p->wt, l->d, p->w->x, l->d, l->d, l->d);
        *to[i] = (AttnLinear){p->w->x, p->wt, p->b->x, p->w->dx, p->b->dx};
    }
    for (int i = 0; i < o->nown; i++) l->own[i] = o->own[i]->x, l->down[i] = o->own[i]->dx;
    poison(o->passing.base, o->passing.cap);
    return l;
}

static int chosen, whole; /* calls that left tokens out, and others */

/* Each token once; those that are held come first, and both kinds ascend. */
static void check_order(const AttnActs *a) {
    bool *seen = calloc((size_t)a->N, sizeof *seen);
    if (!seen) abort();
    assert_in_range(a->held, 1, a->N);
    for (int i = 0; i < a->N; i++) {
        assert_in_range(a->order[i], 0, a->N - 1);
        assert_false(seen[a->order[i]]);
        seen[a->order[i]] = true;
        if (i > 0 && i != a->held) assert_true(a->order[i] > a->order[i - 1]);
    }
    free(seen);
    a->held < a->N ? chosen++ : whole++;
}

/* The input; half the time where its gradient will be, as the encoder has it. */
static const real *input(const Attention *o) {
    if (o->acts.N % 2) return o->x->x;
    memcpy(o->scratch.dx, o->x->x, o->x->n * sizeof *o->x->x);
    return o->scratch.dx;
}

static void forward(void *ctx) {
    Attention *o = ctx;
    const AttnLayer *l = layer_now(o);
    const size_t d = (size_t)l->d;
    poison(o->kept.base, o->kept.cap);
    attn_layer_forward(l, &o->acts, &o->scratch, input(o));
    check_order(&o->acts);
    real *tile = block(3 * d * sizeof *tile);
    for (int r0 = 0, n; (n = attn_rows(&o->acts, r0, 3)) > 0; r0 += n) {
        attn_layer_output(l, &o->acts, tile, r0, n);
        for (int i = 0; i < n; i++)
            memcpy(o->y->x + (size_t)o->acts.order[r0 + i] * d, tile + (size_t)i * d,
                   d * sizeof *tile);
    }
    free(tile);
    if (o->layer.mech->clusters) watch_clusters(o);
}

static void backward(void *ctx) {
    Attention *o = ctx;
    const AttnLayer *l = layer_now(o);
    const size_t d = (size_t)l->d;
    real *tile = block(3 * d * sizeof *tile);
    for (int r0 = 0, n; (n = attn_rows(&o->acts, r0, 3)) > 0; r0 += n) {
        for (int i = 0; i < n; i++)
            memcpy(tile + (size_t)i * d, o->y->dx + (size_t)o->acts.order[r0 + i] * d,
                   d * sizeof *tile);
        attn_layer_output_backward(l, &o->acts, &o->scratch, tile, r0, n);
    }
    free(tile);
    attn_layer_backward(l, &o->acts, &o->scratch, input(o));
    for (size_t i = 0; i < (size_t)o->acts.N; i++)
        for (size_t j = 0; j < d; j++)
            o->x->dx[(size_t)o->acts.order[i] * d + j] += o->scratch.dx[i * d + j];
}

/* ---- one case ---- */

static void open_own(Attention *o, GradCase *c) {
    const AttnMech *m = o->layer.mech;
    o->nown = m->params ? m->params(o->layer.self, o->specs) : 0;
    for (int i = 0; i < o->nown; i++) {
        size_t n = 1;
        for (int j = 0; j < o->specs[i].ndim; j++) n *= (size_t)o->specs[i].shape[j];
        o->own[i] = grad_input(c, o->specs[i].name, n, 1);
        o->own[i]->fixed = !(o->specs[i].flags & PARAM_TRAINED);
    }
}

static void open_projections(Attention *o, GradCase *c) {
    static const char *const names[PROJECTIONS][2] = {{"q.weight", "q.bias"},
                                                      {"k.weight", "k.bias"},
                                                      {"v.weight", "v.bias"},
                                                      {"o.weight", "o.bias"}};
    const size_t d = (size_t)o->layer.d;
    for (int i = 0; i < PROJECTIONS; i++) {
        o->of[i].w = grad_input(c, names[i][0], d * d, 1 / sqrt((double)d));
        o->of[i].b = grad_input(c, names[i][1], d, 0.5);
        o->of[i].wt = block(d * d * sizeof(real));
    }
}

/* Measures, then places. Of an odd number of tokens q, k and v are kept, of an even one made again.
 */
static void open_memory(Attention *o, int N) {
    const bool keep = N % 2;
    for (int i = 0; i < 2; i++) {
        Arena *const all[2] = {&o->kept, &o->passing};
        for (int j = 0; j < 2; j++) {
            const size_t bytes = all[j]->used;
            *all[j] = i ? (Arena){block(bytes), 0, bytes} : (Arena){0};
        }
        attn_acts_place(&o->acts, &o->kept, &o->layer, N, keep);
        attn_scratch_place(&o->scratch, &o->passing, &o->layer, N, keep);
    }
}

static void open_case(Attention *o, GradCase *c, int N, int d) {
    const size_t size = (size_t)N * (size_t)d;
    o->layer.d = d;
    o->x = grad_input(c, "X", size, 1);
    open_projections(o, c);
    open_own(o, c);
    o->y = grad_output(c, "Y", size);
    o->c = c;
    open_memory(o, N);
    o->acts.key = rng_key(1);
    const AttnMech *m = o->layer.mech;
    if (!m->clusters) return;
    m->clusters(o->layer.self, &o->C, &o->slots);
    o->clusters = block((size_t)o->C * (size_t)o->slots * sizeof(int));
    o->first = block((size_t)o->C * (size_t)o->slots * sizeof(int));
    o->tap.clusters = o->clusters;
    o->acts.tap = &o->tap;
}

static void close_case(Attention *o, GradCase *c, void *self) {
    grad_close(c);
    for (int i = 0; i < PROJECTIONS; i++) free(o->of[i].wt);
    free(o->kept.base), free(o->passing.base), free(o->clusters), free(o->first), free(self);
}

/* ---- variants ---- */

/* How many values of a key are tried; the value of a number is drawn with the shape. */
static int values_of(const ConfigKey *k) {
    int words = 0;
    for (const char *p = k->choices; p && *(p += strspn(p, " ")); p += strcspn(p, " ")) words++;
    if (k->type == KEY_BOOL) return 2;
    return k->type == KEY_CHOICE ? words : k->type == KEY_SIZE ? words + 1 : 1;
}

static int variants_of(const AttnMech *m) {
    int n = 1;
    for (const ConfigKey *k = m->keys; k && k->name; k++) n *= values_of(k);
    return n;
}

/* Sizes of a case. The first shapes are the edges. */
typedef struct Shape {
    int N, h, e, number, size; /* number: of KEY_INT; size: of KEY_SIZE */
} Shape;

static Shape draw_shape(Draws *d, int index) {
    Shape s = {draw_size(d, 17), draw_int(d, 1, 3), draw_int(d, 1, 4), draw_int(d, 1, 6), 0};
    s.size = draw_int(d, 1, 7);
    switch (index) {
    case 0: s.N = 1; break;
    case 1: s.h = s.e = 1; break;
    case 2: s.h = 1; break;
    case 3: s.e = 1, s.h = 4; break;
    case 4: s.number = 1; break;
    case 5: s.size = 1; break;
    case 6: s.size = s.N + 3; break;
    case 7: s.N = 17, s.number = 5, s.size = 2; break; /* tokens left over */
    case 8: s.N = 6, s.number = 9; break;              /* more clusters than tokens */
    case 9: s.N = 64; break; /* a whole block of tokens, one more, and three blocks */
    case 10: s.N = 65; break;
    case 11: s.N = 130; break;
    default: break;
    }
    return s;
}

static double clamped(const ConfigKey *k, int x) {
    return x < k->min ? k->min : x > k->max ? k->max : x;
}

static void add_key(cJSON *json, const ConfigKey *k, int value, const Shape *s) {
    char word[64];
    if (k->type == KEY_BOOL) cJSON_AddBoolToObject(json, k->name, value);
    if (k->type == KEY_INT) cJSON_AddNumberToObject(json, k->name, clamped(k, s->number));
    if (k->type == KEY_SIZE && value == 0)
        cJSON_AddNumberToObject(json, k->name, clamped(k, s->size));
    else if (k->type == KEY_SIZE || k->type == KEY_CHOICE)
        cJSON_AddStringToObject(
            json, k->name,
            schema_word(k->choices, value - (k->type == KEY_SIZE), word, sizeof word));
}

/* The mechanism in this variant and shape, and in `text` its keys; NULL if it refuses the variant.
 */
static void *configured(const AttnMech *m, int variant, const Shape *s, int max_length,
                        char *text) {
    const AttnShape shape = {s->h * s->e, s->h, s->e, max_length + max_length % 2, max_length};
    cJSON *json = cJSON_CreateObject();
    Err err;
    void *self = calloc(1, m->self_size);
    for (const ConfigKey *k = m->keys; k && k->name; variant /= values_of(k), k++)
        add_key(json, k, variant % values_of(k), s);
    if (m->keys && !schema_read(self, m->keys, json, "test", "", NULL, &err))
        fail_msg("%s", err.text);
    cJSON_PrintPreallocated(json, text, 200, false);
    cJSON_Delete(json);
    if (attn_configure(m, self, &shape, "test", &err)) return self;
    free(self);
    return NULL;
}

/* Draws until no cluster is on the edge of another choice. */
static bool check_shape(const AttnMech *m, int variant, int index) {
    for (int try = 0; try < TRIES; try++) {
        Draws d = draws_open(m->name, (uint64_t)((variant * GRAD_SHAPES + index) * TRIES + try));
        const Shape s = draw_shape(&d, index);
        char text[200];
        void *self =
            configured(m, variant, &s, s.N + draw_int(&d, 0, 1) * draw_int(&d, 0, 9), text);
        if (!self) return false;
        Attention o = {.layer = {.mech = m, .self = self}};
        GradCase c;
        grad_open(&c, d, "%s %s, N %d, h %d, e %d", m->name, text, s.N, s.h, s.e);
        open_case(&o, &c, s.N, s.h * s.e);
        const bool done = grad_check(&c, forward, backward, &o);
        close_case(&o, &c, self);
        if (done) return true;
    }
    fail_msg("%s: no clusters far from others in %d draws", m->name, TRIES);
    return false;
}

static void every_mechanism(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        int variants = 0;
        for (int v = 0; v < variants_of(attn_table[i]); v++) {
            if (!check_shape(attn_table[i], v, 0)) continue;
            variants++;
            for (int s = 1; s < GRAD_SHAPES; s++) check_shape(attn_table[i], v, s);
        }
        assert_true(variants > 0);
        if (attn_table[i]->choose) assert_true(chosen > 100 && whole > 100);
        printf("# %d variants\n", variants);
        grad_report(attn_table[i]->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mechanism)};
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
