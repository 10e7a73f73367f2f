#include "model/model.h"

#include <stddef.h>
#include <stdio.h>

#include "core/mem.h"
#include "ops/embed.h"
#include "ops/rope.h"

#define AT(field) offsetof(ModelConf, field)
enum { LENGTH_MOST = 1 << 24 }; /* tokens */

const ConfigKey model_keys[] = {
    {"depth", KEY_INT, AT(depth), "2", 1, 1024, NULL, "number of blocks",
     .also = "layers num_layers n_layers"},
    {"heads", KEY_INT, AT(heads), "2", 1, 1024, NULL, "attention heads; must divide d",
     .also = "num_heads n_heads"},
    {"d", KEY_INT, AT(d), "128", 1, 65536, NULL, "width", .also = "dim d_model hidden_size"},
    {"d_ff", KEY_INT, AT(d_ff), "128", 1, 262144, NULL, "width inside the feed-forward layers"},
    {"d_emb", KEY_INT, AT(d_emb), "256", 1, 65536, NULL,
     "width of embeddings; projected to d where it differs", .also = "embedding_dim"},
    {"max_length", KEY_INT, AT(max_length), "0", 0, LENGTH_MOST, NULL,
     "tokens read of a sequence; 0: what the task reads"},
    {"norm", KEY_CHOICE, AT(norm), "\"layer\"", 0, 0, "layer scale batch", "normalisation"},
    {"pre_norm", KEY_BOOL, AT(pre_norm), "true", 0, 0, NULL,
     "norms before sublayers, and one at the end"},
    {"positions", KEY_CHOICE, AT(positions), "\"learned\"", 0, 0, "learned sinusoidal rope",
     "position embedding; rope: none, but queries and keys turned"},
    {"tok_init", KEY_CHOICE, AT(tok_init), "\"normal\"", 0, 0, "normal smooth",
     "first embedding of tokens; smooth: ids near each other alike, as levels of grey are"},
    {"conv", KEY_INT, AT(conv), "0", 0, 511, KEY_ODD_OR_0,
     "taps of a convolution over tokens before attention; 0: none"},
    {"conv_residual", KEY_BOOL, AT(conv_residual), "false", 0, 0, NULL,
     "the residual connection around attention keeps what the convolution adds"},
    {"pooling", KEY_CHOICE, AT(pooling), "\"mean\"", 0, 0, POOLING_CHOICES,
     "from tokens to one vector"},
    {"dropout", KEY_REAL, AT(dropout), "0", 0, 0.95, NULL,
     "probability, after embedding and sublayers"},
    {"dropout_embed", KEY_REAL, AT(dropout_at[DROPOUT_EMBED]), "-1", 0, 0.95, KEY_OR_MINUS_1,
     "probability after the embedding; -1: model.dropout"},
    {"dropout_attention", KEY_REAL, AT(dropout_at[DROPOUT_ATTENTION]), "-1", 0, 0.95,
     KEY_OR_MINUS_1, "probability after attention layers; -1: model.dropout"},
    {"dropout_ffn", KEY_REAL, AT(dropout_at[DROPOUT_FFN]), "-1", 0, 0.95, KEY_OR_MINUS_1,
     "probability after feed-forward layers; -1: model.dropout"},
    {0},
};

static const char *mechanism_name(int i) { return attn_table[i] ? attn_table[i]->name : NULL; }

/* Read into the mechanism's place in the table. */
static const ConfigKey type_keys[] = {
    {"type", KEY_CHOICE, 0, "\"" ATTN_DEFAULT "\"", 0, 0, NULL, "attention mechanism",
     .choice = mechanism_name},
    {0},
};

/* ---- configuration ---- */

/* A mechanism that was copied without its size would have its keys written behind it. */
static void check_keys(const AttnMech *m) {
    for (const ConfigKey *k = m->keys; k && k->name; k++)
        REQUIRE(k->offset >= sizeof(AttnShape) && k->offset < m->self_size,
                "attention %s: key %s lies outside of self_size", m->name, k->name);
}

/* The keys that the mechanism declares, and `type`, which it need not know. */
static bool read_mechanism(Model *m, const cJSON *json, const char *where, Err *err) {
    static const ConfigKey none[] = {{0}};
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(json, "type");
    cJSON *just_type = cJSON_CreateObject();
    if (type) cJSON_AddItemToObject(just_type, "type", cJSON_Duplicate(type, true));
    int place;
    const bool ok = schema_read(&place, type_keys, just_type, where, "model.attention", NULL, err);
    cJSON_Delete(just_type);
    if (!ok) return false;
    m->mech = attn_table[place];
    check_keys(m->mech);
    m->attn = mem_alloc(1, m->mech->self_size);
    return schema_read(m->attn, m->mech->keys ? m->mech->keys : none, json, where,
                       "model.attention", "type", err);
}

/* A table that is computed, not learned, is made when the config is read: what needs gigabytes and
 * minutes is a misprint, and is refused before. */
enum { TABLE_MAX = 1 << 26 };

static bool check_positions(const Model *m, const char *where, Err *err) {
    const bool rope = m->conf.positions == POS_ROPE;
    const int width = rope ? 2 * m->e : m->conf.d_emb;
    if (rope && m->e % 2)
        return err_set(
            err, EX_CONFIG,
            "%s: positions \"rope\" turn pairs of columns: model.d / model.heads must be "
            "even, got %d / %d = %d",
            where, m->conf.d, m->conf.heads, m->e);
    if (m->conf.positions == POS_LEARNED || (int64_t)m->max_tokens * width <= TABLE_MAX)
        return true;
    return err_set(
        err, EX_CONFIG, "%s: %s positions need %s x %s <= %d, got %d x %d", where,
        rope ? "rotary" : "sinusoidal",
        m->max_tokens > m->conf.max_length ? "(model.max_length + 1)" : "model.max_length",
        rope ? "2 x model.d / model.heads" : "model.d_emb", TABLE_MAX, m->max_tokens, width);
}

static bool configure(Model *m, const cJSON *json, const char *where, Err *err) {
    ModelConf *c = &m->conf;
    if (!schema_read(c, model_keys, json, where, "model", "attention", err)) return false;
    if (c->d % c->heads)
        return err_set(err, EX_CONFIG, "%s: key 'model.heads' must divide model.d = %d, got %d",
                       where, c->d, c->heads);
    if (c->conv_residual && !c->conv)
        return err_set(err, EX_CONFIG,
                       "%s: model.conv_residual keeps what a convolution adds, and there is none: "
                       "model.conv must be an odd number of taps",
                       where);
    if (c->max_length == 0) c->max_length = m->task.max_length;
    if (c->max_length > LENGTH_MOST)
        return err_set(err, EX_CONFIG,
                       "%s: key 'model.max_length' is 0, and the longest document has %d tokens: "
                       "say how many to read, at most %d",
                       where, c->max_length, LENGTH_MOST);
    m->e = c->d / c->heads;
    m->max_tokens = c->max_length + (c->pooling == POOL_CLS);
    if (!check_positions(m, where, err)) return false;
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(json, "attention");
    if (!read_mechanism(m, attention, where, err)) return false;
    const bool keep = model_keeps_products(m);
    const AttnShape shape = {c->d, c->heads, m->e, m->max_tokens, c->max_length, keep};
    return attn_configure(m->mech, m->attn, &shape, where, err);
}

void model_write(const Model *m, cJSON *json) {
    schema_write(&m->conf, model_keys, json);
    cJSON *attention = cJSON_AddObjectToObject(json, "attention");
    cJSON_AddStringToObject(attention, "type", m->mech->name);
    if (m->mech->keys) schema_write(m->attn, m->mech->keys, attention);
}

void model_complete(cJSON *config) {
    cJSON *model = schema_complete(model_keys, config, "model");
    cJSON *attention = model ? schema_complete(type_keys, model, "attention") : NULL;
    const char *type =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(attention, type_keys->name));
    const AttnMech *mech = type ? attn_find(type) : NULL;
    if (mech && mech->keys) schema_complete(mech->keys, model, "attention");
}

void model_help(FILE *f) {
    schema_help(f, model_keys, "model");
    schema_help(f, type_keys, "model.attention");
    for (int i = 0; attn_table[i]; i++) {
        const AttnMech *a = attn_table[i];
        fprintf(f,
                "\n  model.attention.type=%s: %s; %s time, %s memory; swapped in or out: %s (%s)\n",
                a->name, a->title, a->time, a->memory, a->swap ? a->swap : "yes", a->reference);
        if (a->keys) schema_help(f, a->keys, "model.attention");
    }
}

/* ---- parameters, in the order of segments ---- */

static void add_norm(Model *m, const char *prefix) {
    const int d = m->conf.d;
    const ParamSpec ones = {"weight", 1, {d}, {INIT_CONST, 1}, PARAM_TRAINED};
    const ParamSpec zeros = {"bias", 1, {d}, {INIT_CONST, 0}, PARAM_TRAINED};
    const ParamSpec mean = {"running_mean", 1, {d}, {INIT_CONST, 0}, 0};
    const ParamSpec var = {"running_var", 1, {d}, {INIT_CONST, 1}, 0};
    const ParamSpec scale = {"g", 0, {0}, {INIT_CONST, __builtin_sqrt(d)}, PARAM_TRAINED};
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, m->conf.norm == NORM_BATCH ? "bn." : "");
    NormAt *at = &m->norms[m->nnorms++];
    m->segment_at[m->nnorms] = m->params.total;
    if (m->conf.norm == NORM_SCALE) {
        at->g = params_add(&m->params, name, &scale);
        return;
    }
    at->g = params_add(&m->params, name, &ones);
    at->b = params_add(&m->params, name, &zeros);
    if (m->conf.norm == NORM_BATCH) {
        at->mean = params_add(&m->params, name, &mean);
        at->var = params_add(&m->params, name, &var);
    }
}

static LinearAt add_linear(Model *m, const char *prefix, const char *name, int out, int in) {
    char full[64];
    snprintf(full, sizeof full, "%s%s.", prefix, name);
    return params_add_linear(&m->params, full, out, in);
}

static void add_attention(Model *m, BlockAt *b, const char *prefix) {
    const int d = m->conf.d;
    char attn[48];
    const ParamSpec conv = {"conv.weight",
                            2,
                            {d, m->conf.conv},
                            {INIT_CONST, 0},
                            PARAM_TRAINED | PARAM_DECAYED | PARAM_MATRIX};
    if (m->conf.conv) b->conv = params_add(&m->params, prefix, &conv);
    snprintf(attn, sizeof attn, "%sattn.", prefix);
    for (int i = 0; i < ATTN_PROJECTIONS; i++)
        if (m->mech->projections & ATTN_HAS(i))
            b->attn[i] = add_linear(m, attn, attn_projection_names[i], d, d);
    ParamSpec *specs = mem_alloc((size_t)m->own, sizeof *specs);
    b->own = mem_alloc((size_t)m->own, sizeof *b->own);
    if (m->mech->params) m->mech->params(m->attn, specs);
    for (int i = 0; i < m->own; i++) b->own[i] = params_add(&m->params, attn, &specs[i]);
    mem_free(specs);
}

static void add_block(Model *m, int index) {
    BlockAt *b = &m->blocks[index];
    const int d = m->conf.d, F = m->conf.d_ff;
    char prefix[32], norm1[48], norm2[48];
    snprintf(prefix, sizeof prefix, "blocks.%d.", index);
    snprintf(norm1, sizeof norm1, "%snorm1.", prefix);
    snprintf(norm2, sizeof norm2, "%snorm2.", prefix);
    if (m->conf.pre_norm) add_norm(m, norm1);
    add_attention(m, b, prefix);
    add_norm(m, m->conf.pre_norm ? norm2 : norm1);
    b->fc1 = add_linear(m, prefix, "fc1", F, d);
    b->fc2 = add_linear(m, prefix, "fc2", d, F);
    if (!m->conf.pre_norm) add_norm(m, norm2);
}

static void add_embedding(Model *m) {
    const int D = m->conf.d_emb;
    /* Levels of grey that are an eighth of all apart have a correlation of exp(-1/2). */
    const Init drawn = {INIT_NORMAL, 1}, smooth = {INIT_SMOOTH, 8};
    const ParamSpec tok = {"tok.weight",
                           2,
                           {m->task.vocab, D},
                           m->conf.tok_init == TOK_SMOOTH ? smooth : drawn,
                           PARAM_TRAINED};
    const ParamSpec pos = {"pos.weight", 2, {m->max_tokens, D}, {INIT_NORMAL, 0.02}, PARAM_TRAINED};
    const ParamSpec mask = {"mask.weight", 1, {D}, {INIT_CONST, 0}, PARAM_TRAINED};
    const ParamSpec cls = {"cls.weight", 1, {D}, {INIT_CONST, 0}, PARAM_TRAINED};
    m->tok = params_add(&m->params, "", &tok);
    if (m->task.masks) m->mask = params_add(&m->params, "", &mask);
    if (m->conf.positions == POS_LEARNED) m->pos = params_add(&m->params, "", &pos);
    if (m->conf.pooling == POOL_CLS) m->cls = params_add(&m->params, "", &cls);
    if (D != m->conf.d) m->proj = params_add_linear(&m->params, "proj.", m->conf.d, D);
}

static void compute_positions(Model *m) {
    const size_t T = (size_t)m->max_tokens, D = (size_t)m->conf.d_emb;
    if (m->conf.positions == POS_SINUSOIDAL) {
        m->sinusoid = mem_alloc(T * D, sizeof(real));
        embed_sinusoidal(m->sinusoid, m->max_tokens, m->conf.d_emb);
    }
    if (m->conf.positions == POS_ROPE) {
        m->rope = mem_alloc(rope_reals(m->max_tokens, m->e), sizeof(real));
        rope_table(m->rope, m->max_tokens, m->e);
    }
}

static void add_head(Model *m) {
    const int d = m->conf.d;
    if (m->task.masked > 0) {
        m->lm = params_add_linear(&m->params, "lm.", m->task.vocab, d);
        return;
    }
    m->head1 = params_add_linear(&m->params, "fc1.", d, m->task.per_example == 2 ? 4 * d : d);
    m->head2 = params_add_linear(&m->params, "fc2.", m->task.classes, d);
}

static void register_all(Model *m) {
    const int most = 2 * m->conf.depth + 1;
    m->blocks = mem_alloc((size_t)m->conf.depth, sizeof *m->blocks);
    m->norms = mem_alloc((size_t)most, sizeof *m->norms);
    m->segment_at = mem_alloc((size_t)most + 2, sizeof *m->segment_at);
    m->own = m->mech->params ? m->mech->params(m->attn, NULL) : 0;
    add_embedding(m);
    m->embedding_reals = m->params.total;
    for (int i = 0; i < m->conf.depth; i++) add_block(m, i);
    if (m->conf.pre_norm) add_norm(m, "last.");
    add_head(m);
    m->nsegments = m->nnorms + 1;
    m->segment_at[m->nsegments] = m->params.total;
}

bool model_open(Model *m, const cJSON *json, const ModelTask *task, const char *where, Err *err) {
    *m = (Model){.task = *task};
    if (!configure(m, json, where, err)) {
        model_close(m);
        return false;
    }
    register_all(m);
    compute_positions(m);
    return true;
}

void model_close(Model *m) {
    params_free(&m->params);
    mem_free(m->attn);
    for (int i = 0; m->blocks && i < m->conf.depth; i++) mem_free(m->blocks[i].own);
    mem_free(m->blocks);
    mem_free(m->norms);
    mem_free(m->segment_at);
    mem_free(m->sinusoid);
    mem_free(m->rope);
    *m = (Model){0};
}

/* ---- sizes ---- */

double model_dropout(const Model *m, DropoutPlace place) {
    const double own = m->conf.dropout_at[place];
    return own < 0 ? m->conf.dropout : own;
}

/* Batch norm has a whole batch's activations in memory. Of narrow rows q, k and v are made again
 * sooner than fetched from there (6 % of a step of width 32 is gained, 0 of 64, 7 lost of 128); to
 * make the feed-forward's hidden rows again costs nothing on two cores and saves a seventh of the
 * memory. */
bool model_keeps_products(const Model *m) { return m->conf.norm != NORM_BATCH || m->conf.d >= 64; }

int model_reads(const Model *m, int length) {
    return length < m->conf.max_length ? length : m->conf.max_length;
}

int model_tokens(const Model *m, int length) {
    return model_reads(m, length) + (m->conf.pooling == POOL_CLS);
}

int model_masked(const Model *m, int length) {
    const int n = model_reads(m, length);
    const int masked = (int)(m->task.masked * n + 0.5);
    return masked > 0 ? masked : 1;
}

int model_projections(const Model *m) { return __builtin_popcount(m->mech->projections); }

double model_flops(const Model *m, int length) {
    const int N = model_tokens(m, length);
    double n = N, d = m->conf.d, proj = m->conf.d_emb == m->conf.d ? 0 : 2 * n * m->conf.d_emb * d;
    double block =
        2 * n * d * (model_projections(m) * d + 2.0 * m->conf.d_ff) + m->mech->flops(m->attn, N);
    const double lm = m->task.masked > 0 ? 2.0 * model_masked(m, length) * d * m->task.vocab : 0;
    return proj + lm + m->conf.depth * (block + 2 * n * d * m->conf.conv);
}

void model_attention_flops(const Model *m, int length, double *own, double *exact) {
    const int N = model_tokens(m, length);
    *own += m->mech->flops(m->attn, N);
    *exact += attn_full.flops(m->attn, N);
}

double model_head_flops(const Model *m) {
    double d = m->conf.d, features = m->task.per_example == 2 ? 4 * d : d;
    if (m->task.masked > 0) return 0;
    return 2 * d * (features + m->task.classes);
}
