#include "report/marks.h"

#include <string.h>

#include "core/mem.h"
#include "data/task.h"
#include "io/json.h"
#include "io/text.h"
#include "train/config.h"

static const struct {
    char letter;
    const char *meaning;
} marks[MARK_LETTERS] = {
    {'D', "other data than the benchmark's (a part of its test set, its Retrieval in part, sets "
          "generated with other parameters, pictures of another size or contours, more examples of "
          "training)"},
    {'A', "augmented"},
    {'P', "pretrained (train.init)"},
    {'L',
     "more than 10 % more parameters than the shipped config has with the same attention at its "
     "defaults"},
    {'G', "generated, with the benchmark's parameters (of Path-X as documented or as released: its "
          "env.json says which)"},
    {'M',
     "more in the model than the papers' have (a convolution, rotary positions, a smooth first "
     "embedding), or averaged weights"},
    {'T',
     "the test set validated (data.holdout=0), and chose these weights, their config or the end"},
};

/* Of their models, what decides how many parameters they have. */
#define MODEL(depth, heads, d, d_ff, d_emb, length, pre_norm, clusters)                            \
    "{\"depth\": " #depth ", \"heads\": " #heads ", \"d\": " #d ", \"d_ff\": " #d_ff               \
    ", \"d_emb\": " #d_emb ", \"max_length\": " #length                                            \
    ", \"norm\": \"layer\", \"pre_norm\": " #pre_norm                                              \
    ", \"positions\": \"learned\", \"attention\": {\"type\": \"cast\", \"clusters\": " #clusters   \
    "}}"
static const struct {
    const char *task, *model;
} shipped[] = {{"listops", MODEL(4, 8, 64, 128, 256, 2000, false, 10)},
               {"text", MODEL(4, 4, 64, 128, 256, 4096, true, 20)},
               {"retrieval", MODEL(2, 8, 256, 256, 256, 4000, false, 20)},
               {"image", MODEL(2, 2, 128, 128, 256, 1024, true, 16)},
               {"pathfinder", MODEL(2, 2, 32, 32, 64, 1024, true, 16)},
               {"pathx", MODEL(2, 2, 32, 32, 64, 16384, true, 16)}};

static double count_parameters(const char *task, const char *model, const char *mechanism) {
    Config c;
    Err err;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "task", task);
    cJSON_AddItemToObject(root, "model", cJSON_Parse(model));
    char *type = text_format("model.attention.type=%s", mechanism);
    const bool ok = config_open(&c, root, task, NULL, &type, 1, &err);
    const double n = ok ? (double)params_values(&c.model.params, PARAM_TRAINED) : 0;
    config_free(&c);
    cJSON_Delete(root);
    mem_free(type);
    return n;
}

double marks_shipped(const char *task, const char *mechanism) {
    if (!mechanism || !attn_find(mechanism)) mechanism = "cast";
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++)
        if (!strcmp(shipped[i].task, task))
            return count_parameters(task, shipped[i].model, mechanism);
    return 0;
}

static bool is_set(const Group *g, const char *key, const char *off) {
    const char *value = group_value(g, key);
    return value && strcmp(value, off) != 0;
}

const char marks_chosen_note[] =
    "data.holdout=0: the test set validated, and so chose the weights of \"test of best\".";

/* ---- data ---- */

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static double number_of(const cJSON *data, const char *key) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(data, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

/* Whether pictures are of another size or other contours than the task's generator makes, as far as
 * both are told. */
static bool other_pictures(const Task *t, const char *source) {
    int side, paddles = 0, ours, of_ours;
    const char *at = t->generated[0] ? strstr(t->generated[0], "side ") : NULL;
    if (!at || sscanf(at, "side %d, %d paddles", &ours, &of_ours) != 2) return false;
    if (sscanf(source, "official files, side %d, %d paddles", &side, &paddles) < 1) return false;
    return side != ours || (paddles && paddles != of_ours);
}

bool marks_chosen_by_test(const Run *r) {
    const char *name = json_string(r->config, "task");
    const Task *t = name ? task_find(name) : NULL;
    return t && t->holds_out && json_number(r->config, "data.holdout") == 0;
}

/* Than the benchmark has to learn from and to choose by. What is held out of the examples of
 * training is one of these; without data.holdout the test set validates, which has a mark of its
 * own. */
static bool has_more(const Task *t, const Group *g, const cJSON *data) {
    const double val = marks_chosen_by_test(g->run[0]) ? 0 : number_of(data, "val");
    const double most = t->official[SPLIT_TRAIN] + (t->holds_out ? 0. : t->official[SPLIT_VAL]);
    return number_of(data, "train") + val > most;
}

static const char *source_of(const Run *run) {
    return json_string(cJSON_GetObjectItemCaseSensitive(run->env, "data"), "source");
}

static bool by_the_rules(const Task *t, const char *source) {
    for (int i = 0; i < TASK_GENERATED && t->generated[i]; i++)
        if (begins(source, t->generated[i])) return true;
    return false;
}

bool marks_made_otherwise(const Task *t, const Run *run) {
    const char *source = source_of(run);
    return source && begins(source, "generated") && !by_the_rules(t, source);
}

/* By what a run's env.json says of them. */
static unsigned mark_of_data(const Task *t, const Group *g, const Run *run) {
    const char *source = source_of(run);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(run->env, "data");
    const unsigned more = has_more(t, g, data) ? MARK_DATA : 0;
    if (!source) return more;
    if (by_the_rules(t, source)) return more | MARK_GENERATED;
    return marks_made_otherwise(t, run) || other_pictures(t, source) ? MARK_DATA : more;
}

static unsigned mark_of_test(const Task *t, const Result *r) {
    return r->test_examples >= 0 && r->test_examples != t->official[SPLIT_TEST] ? MARK_DATA : 0;
}

/* ---- recipe ---- */

static bool has_parts(const Group *g) {
    const char *positions = group_value(g, "model.positions");
    return (positions && !strcmp(positions, "rope")) || is_set(g, "model.conv", "0") ||
           is_set(g, "model.tok_init", "normal") || is_set(g, "train.ema", "0");
}

unsigned marks_of(const Group *g, const Result *r) {
    const Task *t = task_find(g->task);
    if (!t || !t->official[SPLIT_TEST]) return 0;
    unsigned m = mark_of_test(t, r);
    for (int i = 0; i < g->n; i++) m |= mark_of_data(t, g, g->run[i]);
    if (is_set(g, "data.augment", "false")) m |= MARK_AUGMENTED;
    if (is_set(g, "train.init", "")) m |= MARK_PRETRAINED;
    const char *mechanism = group_value(g, "model.attention.type");
    if (r->parameters > 1.1 * marks_shipped(g->task, mechanism)) m |= MARK_LARGER;
    if (has_parts(g)) m |= MARK_PARTS;
    if (marks_chosen_by_test(g->run[0])) m |= MARK_CHOSEN;
    return m;
}

unsigned marks_of_last(const Group *g, unsigned m) {
    return is_set(g, "train.patience", "0") ? m : m & ~(unsigned)MARK_CHOSEN;
}

/* ---- words ---- */

void marks_letters(char buf[CELL_MARK], unsigned m) {
    int n = 0;
    for (int i = 0; i < MARK_LETTERS; i++)
        if (m & 1u << i) buf[n++] = marks[i].letter;
    buf[n] = '\0';
}

const char *marks_meaning(unsigned mark) {
    int i = 0;
    while (mark >> i > 1) i++;
    return marks[i].meaning;
}

char *marks_explain(unsigned m) {
    char *text;
    size_t size;
    const char *separator = "";
    char left_out[CELL_MARK], apart[CELL_MARK];
    FILE *f = text_stream(&text, &size);
    for (int i = 0; i < MARK_LETTERS; i++) {
        if (!(m & 1u << i)) continue;
        fprintf(f, "%s%c: %s", separator, marks[i].letter, marks[i].meaning);
        separator = ". ";
    }
    marks_letters(left_out, m & MARK_LEFT_OUT);
    if (*left_out) fprintf(f, "%sLeft out of the means: %s", separator, left_out);
    marks_letters(apart, m & MARK_EXTRAS);
    if (*apart) fprintf(f, "%sIn rows of their own, \"with extras\": %s", separator, apart);
    if (m) fputc('.', f);
    fclose(f);
    return text;
}
