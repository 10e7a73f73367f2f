/* Every mechanism of attn_table, in every combination of its own choices and switches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/attention.h"
#include "gradcheck.h"
#include "ops/linear.h"

enum { TRIES = 8 };

typedef struct Attention {
    const AttnMech *mech;
    void *self;
    AttnCall call;
    GradTensor *x, *q, *k, *v, *r, *own[ATTN_PARAMS];
    ParamSpec specs[ATTN_PARAMS];
    int nown, C, slots;
    AttnTap tap;
    int *clusters, *first; /* as sets: each sorted */
    int *held, nheld;      /* chosen tokens */
    real *values;          /* V of held tokens; others' rows are poison */
    size_t at_forward;     /* calls so far */
    void *saved, *scratch;
    AttnNeeds needs;
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

static AttnCall call_of(Attention *o, size_t scratch) {
    AttnCall call = o->call;
    for (int i = 0; i < o->nown; i++) call.w[i] = o->own[i]->x;
    poison(o->scratch, scratch);
    call.saved = (Arena){o->saved, 0, o->needs.saved};
    call.scratch = (Arena){o->scratch, 0, scratch};
    return call;
}

/* What the choice promises: V of held tokens is all that is read. */
static void hold_values(Attention *o, AttnCall *call) {
    const size_t d = o->v->n / (size_t)call->N;
    AttnCall choice = *call;
    choice.V = NULL;
    o->nheld = o->mech->choose(o->self, &choice, o->held);
    poison(o->values, o->v->n * sizeof *o->values);
    for (int i = 0; i < o->nheld; i++) {
        assert_true(o->held[i] < call->N && (i == 0 || o->held[i] > o->held[i - 1]));
        const size_t at = (size_t)o->held[i] * d;
        memcpy(o->values + at, o->v->x + at, d * sizeof *o->values);
    }
    call->V = o->values;
}

/* And nothing is added to dK and dV of other tokens. */
static void check_held(const Attention *o) {
    const int N = o->call.N;
    const size_t d = o->v->n / (size_t)N;
    for (int n = 0, i = 0; n < N; n++) {
        if (i < o->nheld && o->held[i] == n) {
            i++;
            continue;
        }
        for (size_t j = (size_t)n * d; j < (size_t)(n + 1) * d; j++)
            assert_true(o->k->dx[j] == o->k->noise[j] && o->v->dx[j] == o->v->noise[j]);
    }
}

static void forward(void *ctx) {
    Attention *o = ctx;
    poison(o->saved, o->needs.saved);
    AttnCall call = call_of(o, o->needs.forward);
    if (o->mech->choose) hold_values(o, &call);
    o->mech->forward(o->self, &call);
    if (o->mech->clusters) watch_clusters(o);
}

static void backward(void *ctx) {
    Attention *o = ctx;
    AttnCall call = call_of(o, o->needs.backward);
    if (o->mech->choose) call.V = o->values;
    call.dR = o->r->dx;
    call.dX = o->x->dx, call.dQ = o->q->dx, call.dK = o->k->dx, call.dV = o->v->dx;
    for (int i = 0; i < o->nown; i++) call.dw[i] = o->own[i]->dx;
    o->mech->backward(o->self, &call);
    if (o->mech->choose) check_held(o);
}

/* ---- one case ---- */

static void open_own(Attention *o, GradCase *c) {
    o->nown = o->mech->params ? o->mech->params(o->self, o->specs) : 0;
    for (int i = 0; i < o->nown; i++) {
        size_t n = 1;
        for (int j = 0; j < o->specs[i].ndim; j++) n *= (size_t)o->specs[i].shape[j];
        o->own[i] = grad_input(c, o->specs[i].name, n, 1);
        o->own[i]->fixed = !(o->specs[i].flags & PARAM_TRAINED);
    }
}

static void open_case(Attention *o, GradCase *c, int N, int d) {
    const size_t size = (size_t)N * (size_t)d;
    o->x = grad_input(c, "X", size, 1);
    o->q = grad_input(c, "Q", size, 1);
    o->k = grad_input(c, "K", size, 1);
    o->v = grad_input(c, "V", size, 1);
    o->r = grad_output(c, "R", size);
    o->c = c;
    o->call = (AttnCall){.N = N, .X = o->x->x, .Q = o->q->x, .K = o->k->x, .V = o->v->x};
    o->call.R = o->r->x;
    open_own(o, c);
    o->needs = o->mech->needs(o->self, N);
    const size_t f = o->needs.forward, b = o->needs.backward;
    o->saved = block(o->needs.saved);
    o->scratch = block(f > b ? f : b);
    o->held = block((size_t)N * sizeof *o->held);
    o->values = block(size * sizeof *o->values);
    if (!o->mech->clusters) return;
    o->mech->clusters(o->self, &o->C, &o->slots);
    o->clusters = block((size_t)o->C * (size_t)o->slots * sizeof(int));
    o->first = block((size_t)o->C * (size_t)o->slots * sizeof(int));
    o->tap.clusters = o->clusters;
    o->call.tap = &o->tap;
    o->call.key = rng_key(1);
}

static void close_case(Attention *o, GradCase *c) {
    grad_close(c);
    free(o->saved), free(o->scratch), free(o->clusters), free(o->first), free(o->self);
    free(o->held), free(o->values);
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
        Attention o = {.mech = m};
        o.self = configured(m, variant, &s, s.N + draw_int(&d, 0, 1) * draw_int(&d, 0, 9), text);
        if (!o.self) return false;
        GradCase c;
        grad_open(&c, d, "%s %s, N %d, h %d, e %d", m->name, text, s.N, s.h, s.e);
        open_case(&o, &c, s.N, s.h * s.e);
        const bool done = grad_check(&c, forward, backward, &o);
        close_case(&o, &c);
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
        printf("# %d variants\n", variants);
        grad_report(attn_table[i]->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mechanism)};
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
