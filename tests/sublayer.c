#include "sublayer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradcheck.h"
#include "ops/linear.h"
#include "ops/rope.h"

static const char *name_wanted(void) {
    const char *one = getenv("MECHANISM");
    if (!one || !*one) return NULL;
    if (!attn_find(one)) fprintf(stderr, "MECHANISM=%s: there is none\n", one), abort();
    return one;
}

bool mech_named(void) { return name_wanted() != NULL; }

bool mech_wanted(const AttnMech *m) { return !mech_named() || !strcmp(name_wanted(), m->name); }

/* ---- configs ---- */

static int values_of(const ConfigKey *k) {
    int words = 0;
    for (const char *p = k->type == KEY_INT ? NULL : k->choices; p && *(p += strspn(p, " "));
         p += strcspn(p, " "))
        words++;
    if (k->type == KEY_BOOL) return 2;
    return k->type == KEY_CHOICE ? words : k->type == KEY_SIZE ? words + 1 : 1;
}

int mech_variants(const AttnMech *m) {
    int n = 1;
    for (const ConfigKey *k = m->keys; k && k->name; k++) n *= values_of(k);
    return n;
}

/* A number that the key takes, x where it does; an even one becomes 0 where only that is even. */
static double nearest(const ConfigKey *k, int x) {
    const int value = x < k->min ? (int)k->min : x > k->max ? (int)k->max : x;
    if (k->type != KEY_INT || !k->choices) return value;
    if (!strcmp(k->choices, KEY_ODD_OR_0)) return value % 2 ? value : 0;
    return (value % 2 == 0) == !strcmp(k->choices, KEY_EVEN) ? value : value - 1;
}

static void add_key(cJSON *json, const ConfigKey *k, int value, MechSizes s) {
    char word[64];
    if (k->type == KEY_BOOL) cJSON_AddBoolToObject(json, k->name, value);
    if (k->type == KEY_INT) cJSON_AddNumberToObject(json, k->name, nearest(k, s.number));
    if (k->type == KEY_SIZE && value == 0)
        cJSON_AddNumberToObject(json, k->name, nearest(k, s.size));
    else if (k->type == KEY_SIZE || k->type == KEY_CHOICE)
        cJSON_AddStringToObject(
            json, k->name,
            schema_word(k->choices, value - (k->type == KEY_SIZE), word, sizeof word));
}

void mech_print(char *text, const AttnMech *m, int variant, MechSizes sizes) {
    char braced[MECH_TEXT];
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "type", m->name);
    for (const ConfigKey *k = m->keys; k && k->name; variant /= values_of(k), k++)
        add_key(json, k, variant % values_of(k), sizes);
    if (!cJSON_PrintPreallocated(json, braced, sizeof braced, false)) abort();
    cJSON_Delete(json);
    snprintf(text, MECH_TEXT, "%.*s", (int)strlen(braced) - 2, braced + 1);
}

void *mech_open(const AttnMech *m, const char *text, const AttnShape *shape, Err *err) {
    static const ConfigKey none[] = {{0}};
    char braced[MECH_TEXT + 2];
    void *self = calloc(1, m->self_size);
    snprintf(braced, sizeof braced, "{%s}", text);
    cJSON *json = cJSON_Parse(braced);
    if (!json || !self) abort();
    const bool ok =
        schema_read(self, m->keys ? m->keys : none, json, "test", "model.attention", "type", err) &&
        attn_configure(m, self, shape, "test", err);
    cJSON_Delete(json);
    if (ok) return self;
    free(self);
    return NULL;
}

/* ---- one mechanism ---- */

static void *block(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p) abort();
    return p;
}

static real *zeros(size_t n) { return memset(block(n * sizeof(real)), 0, n * sizeof(real)); }

static void register_all(Sublayer *s) {
    const AttnMech *m = s->mech;
    for (int i = 0; i < ATTN_PROJECTIONS; i++) {
        char prefix[16];
        if (!(m->projections & ATTN_HAS(i))) continue;
        snprintf(prefix, sizeof prefix, "%s.", attn_projection_names[i]);
        const LinearAt at = params_add_linear(&s->params, prefix, s->d, s->d);
        s->linear[i][0] = at.w, s->linear[i][1] = at.b;
    }
    const int own = m->params ? m->params(s->self, NULL) : 0;
    ParamSpec *specs = calloc((size_t)own + 1, sizeof *specs);
    s->own = calloc((size_t)own + 1, sizeof *s->own);
    if (!specs || !s->own) abort();
    if (own && m->params(s->self, specs) != own) abort();
    for (int i = 0; i < own; i++) s->own[i] = params_add(&s->params, "", &specs[i]);
    free(specs);
}

/* Weights keep activations' size; biases and what is its own matter. */
static void draw_weights(Sublayer *s, Draws *d) {
    for (int i = 0; i < s->params.count; i++) {
        const Param *p = &s->params.list[i];
        const double std = p->flags & PARAM_MATRIX ? 1 / sqrt(s->d) : 1;
        const bool bias = i < 2 * ATTN_PROJECTIONS && strstr(p->name, ".bias");
        draw_normals(d, s->w + p->at, p->n, 0, bias ? 0.5 : std);
    }
}

void sublayer_open(Sublayer *s, const AttnMech *m, void *self, int N, Draws *d) {
    const int width = ((const AttnShape *)self)->d;
    const size_t rows = (size_t)N * (size_t)width;
    *s = (Sublayer){.mech = m, .self = self, .N = N, .d = width};
    register_all(s);
    s->w = zeros(s->params.total), s->wt = zeros(s->params.total), s->dw = zeros(s->params.total);
    s->X = zeros(rows), s->Y = zeros(rows), s->dX = zeros(rows), s->dY = zeros(rows);
    draw_weights(s, d);
    draw_normals(d, s->X, rows, 0, 1);
    draw_normals(d, s->dY, rows, 0, 1);
    s->memory = attn_memory(m, self, N);
    Arena *const all[3] = {&s->memory.saved, &s->memory.scratch, &s->memory.job};
    for (int i = 0; i < 3; i++) *all[i] = (Arena){block(all[i]->used), 0, all[i]->used};
}

void sublayer_turn(Sublayer *s) {
    const AttnShape *shape = s->self;
    s->rope = zeros(rope_reals(shape->max_tokens, shape->e));
    rope_table(s->rope, shape->max_tokens, shape->e);
}

void sublayer_close(Sublayer *s) {
    real *const all[] = {s->w, s->wt, s->dw, s->X, s->Y, s->dX, s->dY, s->rope};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(s->own);
    free(s->memory.saved.base), free(s->memory.scratch.base), free(s->memory.job.base);
    params_free(&s->params);
}

static AttnCall call(Sublayer *s) {
    poison(s->memory.scratch.base, s->memory.scratch.cap);
    poison(s->memory.job.base, s->memory.job.cap);
    AttnCall c = {.N = s->N, .d = s->d, .X = s->X, .w = s->w, .dw = s->dw, .own = s->own};
    c.memory = s->memory;
    c.rope = s->rope;
    c.trace = &s->trace, c.meter = &s->meter;
    for (int i = 0; i < ATTN_PROJECTIONS; i++)
        if (s->mech->projections & ATTN_HAS(i)) {
            const size_t w = s->linear[i][0], b = s->linear[i][1];
            transpose(s->wt + w, s->d, s->w + w, s->d, s->d, s->d);
            c.proj[i] = (AttnLinear){s->w + w, s->wt + w, s->w + b, s->dw + w, s->dw + b};
        }
    return c;
}

void sublayer_forward(Sublayer *s) {
    poison(s->memory.saved.base, s->memory.saved.cap);
    poison(s->Y, (size_t)(s->N * s->d) * sizeof *s->Y);
    AttnCall c = call(s);
    s->trace.digest = 0;
    s->meter = (AttnMeter){0};
    c.Y = s->Y;
    s->mech->forward(s->self, &c);
}

void sublayer_backward(Sublayer *s) {
    AttnCall c = call(s);
    poison(s->dX, (size_t)(s->N * s->d) * sizeof *s->dX);
    c.trace = NULL;
    c.dY = s->dY, c.dX = s->dX;
    s->mech->backward(s->self, &c);
}

const real *sublayer_linear(const Sublayer *s, AttnProjection p, int part) {
    return s->w + s->linear[p][part];
}

const real *sublayer_own(const Sublayer *s, int i) { return s->w + s->own[i]; }

int sublayer_key(const Sublayer *s, const char *name) {
    const ConfigKey *k = s->mech->keys ? schema_find(s->mech->keys, name) : NULL;
    if (!k) abort();
    const void *value = (const char *)s->self + k->offset;
    return k->type == KEY_BOOL ? *(const bool *)value : *(const int *)value;
}
