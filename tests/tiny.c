#include "tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/embed.h"

static void set_int(int *x, int fallback) {
    if (!*x) *x = fallback;
}
static void set_word(const char **x, const char *fallback) {
    if (!*x) *x = fallback;
}

/* As the config has it, where 0 is a probability. */
static double at(const TinyConf *c, DropoutPlace place) {
    const double p = c->dropout_at[place];
    return p == 0 ? -1 : p < 0 ? 0 : p;
}

void tiny_print(TinyConf *c, char *json) {
    set_int(&c->depth, 1), set_int(&c->heads, 1), set_int(&c->d, 4), set_int(&c->d_ff, 5);
    set_int(&c->d_emb, c->d), set_int(&c->max_length, 8);
    set_int(&c->B, 3), set_int(&c->vocab, 5), set_int(&c->classes, 3), set_int(&c->per_example, 1);
    set_word(&c->norm, "layer"), set_word(&c->positions, "learned"), set_word(&c->pooling, "mean");
    set_word(&c->tok_init, "normal");
    set_word(&c->attention, "\"type\":\"cast\",\"clusters\":3");
    snprintf(json, 1024,
             "{\"depth\":%d,\"heads\":%d,\"d\":%d,\"d_ff\":%d,\"d_emb\":%d,\"max_length\":%d,"
             "\"conv\":%d,\"conv_residual\":%s,"
             "\"norm\":\"%s\",\"pre_norm\":%s,\"positions\":\"%s\",\"pooling\":\"%s\","
             "\"tok_init\":\"%s\","
             "\"dropout\":%g,\"dropout_embed\":%g,\"dropout_attention\":%g,\"dropout_ffn\":%g,"
             "\"attention\":{%s}}",
             c->depth, c->heads, c->d, c->d_ff, c->d_emb, c->max_length, c->conv,
             c->conv_residual ? "true" : "false", c->norm, c->post_norm ? "false" : "true",
             c->positions, c->pooling, c->tok_init, c->dropout, at(c, DROPOUT_EMBED),
             at(c, DROPOUT_ATTENTION), at(c, DROPOUT_FFN), c->attention);
}

static void draw_samples(Tiny *t, const TinyConf *c, Draws *d) {
    const size_t documents = (size_t)(c->B * c->per_example), N = (size_t)c->max_length;
    t->B = c->B;
    t->samples = mem_alloc((size_t)c->B, sizeof *t->samples);
    t->ids = mem_alloc(documents * N, sizeof *t->ids);
    for (size_t i = 0; i < documents * N; i++) t->ids[i] = draw_int(d, 0, c->vocab - 1);
    for (int i = 0; i < c->B; i++) {
        Sample *s = &t->samples[i];
        s->label = draw_int(d, 0, c->classes - 1);
        s->number = 100 + i;
        for (int j = 0; j < c->per_example; j++) {
            s->ids[j] = t->ids + (size_t)(i * c->per_example + j) * N;
            s->length[j] = i + j == 0 ? c->max_length : draw_int(d, 1, c->max_length);
        }
    }
}

/* The first token of each document, and of the others about that share. */
static void mask(Tiny *t, const TinyConf *c, Draws *d) {
    const size_t all = (size_t)(c->B * c->per_example * c->max_length);
    t->targets = mem_alloc(all, sizeof *t->targets);
    memcpy(t->targets, t->ids, all * sizeof *t->ids);
    for (size_t i = 0; i < all; i++)
        if (i % (size_t)c->max_length == 0 || draw_int(d, 0, 99) < 100 * c->masked)
            t->ids[i] = TOKEN_MASKED;
    for (int i = 0; i < c->B * c->per_example; i++)
        t->samples[i / c->per_example].targets[i % c->per_example] =
            t->targets + (size_t)i * (size_t)c->max_length;
}

/* Initial values and noise, so that biases and norms matter. */
static void draw_weights(Tiny *t, Draws *d) {
    const Params *p = &t->m.params;
    t->w = mem_alloc(p->total, sizeof *t->w);
    t->grads = mem_alloc(p->total, sizeof *t->grads);
    params_init(p, t->w, rng_u64(d->key, d->next++));
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        real *noise = mem_alloc(q->n, sizeof *noise);
        draw_normals(d, noise, q->n, 0, 0.3);
        for (size_t j = 0; j < q->n && (q->flags & PARAM_TRAINED); j++) t->w[q->at + j] += noise[j];
        mem_free(noise);
    }
}

void tiny_open(Tiny *t, TinyConf c, Draws d) {
    char text[1024];
    Err err;
    *t = (Tiny){0};
    tiny_print(&c, text);
    cJSON *json = cJSON_Parse(text);
    if (!json) fail_msg("not JSON: %s", text);
    const ModelTask task = {c.vocab,      c.classes, c.per_example,
                            c.max_length, c.masked,  c.masked > 0};
    if (!model_open(&t->m, json, &task, "test", &err)) fail_msg("%s", err.text);
    cJSON_Delete(json);
    draw_samples(t, &c, &d);
    if (c.masked > 0) mask(t, &c, &d);
    draw_weights(t, &d);
    traces_open(&t->traces, &t->m, t->B * c.per_example, t->m.max_tokens, TRACES_CHOICES);
    const size_t B = (size_t)c.B;
    t->out.loss = mem_alloc(B, sizeof *t->out.loss);
    t->out.predicted = mem_alloc(B, sizeof *t->out.predicted);
    t->out.logits = mem_alloc(B * (size_t)c.classes, sizeof *t->out.logits);
    if (c.masked > 0) mem_free(t->out.logits), t->out.logits = NULL;
}

void tiny_close(Tiny *t) {
    traces_close(&t->traces);
    model_close(&t->m);
    mem_free(t->samples), mem_free(t->ids), mem_free(t->targets), mem_free(t->w),
        mem_free(t->grads);
    mem_free(t->out.loss), mem_free(t->out.predicted), mem_free(t->out.logits);
}

void tiny_step(Tiny *t, Engine *e, double scale) {
    memset(t->grads, 0, t->m.params.total * sizeof *t->grads);
    engine_weights(e, t->w);
    engine_begin_update(e);
    engine_step(e, t->samples, t->B, scale, rng_key(7), t->grads, &t->out, t->traces.trace);
}

double tiny_loss(const Tiny *t) {
    double sum = 0;
    for (int i = 0; i < t->B; i++) sum += t->out.loss[i];
    return sum;
}
