#include "export/card.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "report/figures.h"
#include "report/marks.h"
#include "train/evaluate.h"
#include "train/identity.h"

typedef struct Writer {
    FILE *f;
    const Card *c;
    const Run *run; /* with a directory, or NULL */
    char name[256]; /* of the files, without their ends */
} Writer;

/* ---- rows ---- */

static void row(const Writer *w, const char *what, const char *value) {
    if (!value || !*value) return;
    fprintf(w->f, "| %s | ", what);
    text_markdown(w->f, value);
    fputs(" |\n", w->f);
}

static void rowf(const Writer *w, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void rowf(const Writer *w, const char *what, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    row(w, what, text);
}

static const char *config_text(const Writer *w, const char *path) {
    const char *text = json_string(w->c->from->run.config, path);
    return text ? text : "?";
}

/* "depth 2, heads 4": the plain values of a section, but for `skip`, and those that are what
 * another key says (-1). */
static void section(const Writer *w, const char *what, const char *path, const char *skip) {
    char text[1024] = "";
    const cJSON *o = json_at(w->c->from->run.config, path);
    for (const cJSON *x = o ? o->child : NULL; x; x = x->next) {
        const bool as_another = cJSON_IsNumber(x) && x->valuedouble == -1;
        if (cJSON_IsObject(x) || as_another || !strcmp(x->string, skip)) continue;
        char *value = json_text(x);
        format_add(text, sizeof text, "%s%s %s", *text ? ", " : "", x->string, value);
        mem_free(value);
    }
    row(w, what, text);
}

/* ---- what it is ---- */

/* How many of the values were drawn once and never trained; 0 where the config makes no model. */
static double drawn_values(const Writer *w) {
    Config c;
    Err err;
    double drawn = 0;
    if (config_open(&c, w->c->from->run.config, w->c->weights, w->c->file, NULL, 0, &err))
        drawn = (double)params_values(&c.model.params, PARAM_DRAWN);
    config_free(&c);
    return drawn;
}

static void print_weights(const Writer *w) {
    const double drawn = drawn_values(w);
    double values = 0, running = 0, bytes = 0;
    char size[32], statistics[64] = "", parts[64] = "";
    for (int i = 0; i < w->c->file->ntensors; i++) {
        const StTensor *t = &w->c->file->tensors[i];
        if (params_is_state(t->name)) continue;
        *(strstr(t->name, ".running_") ? &running : &values) +=
            (double)(t->bytes / dtype_size(t->dtype));
        bytes += (double)t->bytes;
    }
    if (running > 0)
        snprintf(statistics, sizeof statistics, ", and %.0f running statistics", running);
    if (drawn > 0)
        snprintf(parts, sizeof parts, " (%.0f trained, %.0f drawn)", values - drawn, drawn);
    rowf(w, "parameters", "%.0f values%s%s, %s", values, parts, statistics,
         format_bytes(size, sizeof size, bytes));
}

static void print_data(const Writer *w) {
    Identity made;
    char text[1024] = "";
    identity_read(&made, w->c->file);
    for (int i = 0; i < SPLITS; i++)
        if (made.part[i][0]) format_add(text, sizeof text, ", %s %s", split_names[i], made.part[i]);
    rowf(w, "data", "%s%s%s", config_text(w, "data.dir"), *text ? "; hashes: " : "",
         *text ? text + 2 : "");
}

/* What the benchmark's tables say of the run's data, word for word. */
static void print_marks(const Writer *w) {
    RunSet alone = {.run = (Run *)(uintptr_t)w->run, .n = 1};
    Groups groups;
    Result r;
    groups_make(&groups, &alone, false);
    group_result(&r, &groups.group[0], false);
    const unsigned marks = marks_of(&groups.group[0], &r);
    if (marks & MARK_DATA) row(w, "beside the benchmark's", marks_meaning(MARK_DATA));
    if (marks & MARK_GENERATED) row(w, "beside the benchmark's", marks_meaning(MARK_GENERATED));
    groups_free(&groups);
}

/* As far as the run's env.json tells. */
static void print_origin(const Writer *w) {
    char counts[128] = "";
    const cJSON *data = w->run ? json_at(w->run->env, "data") : NULL;
    if (!data) return;
    row(w, "source of the data", json_string(data, "source"));
    for (int i = 0; i < SPLITS; i++) {
        const double n = json_number(data, split_names[i]);
        if (!isnan(n))
            format_add(counts, sizeof counts, "%s%s %.0f", *counts ? ", " : "", split_names[i], n);
    }
    row(w, "examples", counts);
    print_marks(w);
}

static bool is_masked(const Writer *w) {
    return !strcmp(config_text(w, "train.objective"), "masked");
}

static void print_model(const Writer *w) {
    const char *name = config_text(w, "task");
    const Task *task = task_find(name);
    rowf(w, "task", "%s%s%s", name, task ? ": " : "", task ? task->title : "");
    if (is_masked(w)) row(w, "objective", "masked: which tokens stand where some are masked");
    print_data(w);
    print_origin(w);
    section(w, "model", "model", "");
    rowf(w, "attention", "%s", config_text(w, "model.attention.type"));
    section(w, "attention's keys", "model.attention", "type");
    print_weights(w);
}

/* ---- how it was trained ---- */

/* Of the process that began the run. */
static const char *first_command(const Run *r) {
    const cJSON *earlier = json_at(r->env, "earlier");
    return json_string(earlier && earlier->child ? earlier->child : r->env, "command");
}

static const cJSON *first_config(const Writer *w) {
    return w->run ? json_at(run_init(w->run), "config") : NULL;
}

/* What the run tells of them; else the config names them, if there were any. */
static const char *first_weights(const Writer *w) {
    const char *file = w->run ? json_string(run_init(w->run), "file") : NULL;
    if (!file) file = json_string(w->c->from->run.config, "train.init");
    return file && *file ? file : NULL;
}

static void print_first_weights(const Writer *w) {
    const cJSON *init = w->run ? run_init(w->run) : NULL, *update = json_at(init, "update");
    const char *objective = json_string(first_config(w), "train.objective");
    char at[48] = "";
    if (!first_weights(w)) return;
    if (cJSON_IsNumber(update)) snprintf(at, sizeof at, ", update %.0f", update->valuedouble);
    rowf(w, "first weights", "%s%s%s", first_weights(w), at,
         objective && !strcmp(objective, "masked") ? ", of masked training" : "");
}

static void print_training(const Writer *w) {
    const Source *s = w->c->from;
    rowf(w, "weights", "%s, of update %lld", s->which, (long long)s->update);
    print_first_weights(w);
    if (!w->run) return;
    const RunLine made = run_made(w->run);
    char time[32];
    rowf(w, "training", "%lld updates, %.4g epochs, %s%s", (long long)made.step,
         made.value[RUN_EPOCH], format_duration(time, sizeof time, made.value[RUN_SECONDS]),
         run_done(w->run)      ? ""
         : run_trained(w->run) ? "; it is not tested"
                               : "; it is not finished");
    row(w, "program", json_string(w->run->env, "version"));
    row(w, "commit", json_string(w->run->env, "commit"));
    row(w, "build", json_string(w->run->env, "build"));
    row(w, "processor", json_string(w->run->env, "cpu"));
}

/* ---- how well it does ---- */

static void print_line(const Writer *w, const char *what, const RunLine *l) {
    char loss[64], count[48] = "";
    loss_text(loss, sizeof loss, l->value[RUN_LOSS],
              is_masked(w) ? OBJECTIVE_MASKED : OBJECTIVE_CLASSIFY);
    if (!isnan(l->value[RUN_COUNT]))
        snprintf(count, sizeof count, ", %.0f examples", l->value[RUN_COUNT]);
    rowf(w, what, "%.2f %%, %s%s", 100 * l->value[RUN_ACCURACY], loss, count);
}

/* Of the very weights that are exported. */
static void print_accuracy(const Writer *w) {
    const int64_t update = w->c->from->update;
    const int which = source_is_last(w->c->from) ? RUN_LAST : RUN_BEST;
    const RunLine *test = &w->run->test[which];
    for (int i = 0; i < w->run->val.n; i++)
        if (w->run->val.line[i].step == update)
            print_line(w, "accuracy in validation", &w->run->val.line[i]);
    if (w->run->tested[which] && test->step == update) print_line(w, "accuracy in test", test);
    if (which == RUN_BEST && marks_chosen_by_test(w->run))
        row(w, "chosen by", "the test set, which validated (data.holdout=0)");
}

static bool has_run(const Group *g, const Run *r) {
    for (int i = 0; i < g->n; i++)
        if (file_same(g->run[i]->dir, r->dir)) return true;
    return false;
}

static void print_group(const Writer *w, const Group *g) {
    Result r;
    char sd[48] = "";
    group_result(&r, g, false);
    const Spread *s = source_is_last(w->c->from) ? &r.last : &r.best;
    if (s->n > 1) snprintf(sd, sizeof sd, " ± %.2f", s->sd);
    if (s->n > 0)
        rowf(w, "over seeds",
             "%.2f%s %% in test (mean ± sample standard deviation), %d of %d runs finished",
             s->mean, sd, r.finished, r.runs);
}

/* Of a sweep, the runs beside it that differ in their seed alone. */
static void print_seeds(const Writer *w) {
    char parent[FILE_PATH_MAX + 4], record[FILE_PATH_MAX + 16];
    RunSet set;
    Groups groups;
    Err err;
    snprintf(parent, sizeof parent, "%s/..", w->run->dir);
    snprintf(record, sizeof record, "%s/sweep.json", parent);
    if (!file_exists(record)) return;
    if (!runs_read(&set, (char *[]){parent}, 1, false, &err)) {
        log_warn("%s; the card is without other seeds", err.text);
        return;
    }
    groups_make(&groups, &set, false);
    for (int i = 0; i < groups.n; i++)
        if (has_run(&groups.group[i], w->run)) print_group(w, &groups.group[i]);
    groups_free(&groups);
    runs_free(&set);
}

/* ---- what to do with it ---- */

/* "cast_eval NAME.safetensors", as a shell takes it. */
static void print_call(const Writer *w, const char *program, const char *end) {
    char *file = text_format("%s%s", w->name, end);
    fprintf(w->f, "%s ", program);
    option_print_word(w->f, file);
    mem_free(file);
}

static void print_commands(const Writer *w) {
    const char *command = w->run ? first_command(w->run) : NULL;
    fprintf(w->f, "\n## Commands\n\n```\n");
    if (command) {
        text_plain(w->f, command);
        fputs("    # trained it\n", w->f);
    }
    print_call(w, "cast_train", ".json");
    fprintf(w->f, "    # the config below, saved so, trains it anew%s\n",
            first_weights(w) ? ", from its first weights, which are to be trained before" : "");
    print_call(w, "cast_eval", ".safetensors");
    fputs("    # data.dir=DIR says where the data are\n", w->f);
    if (w->c->python) print_call(w, "python3", "_numpy.py");
    if (w->c->python) fputs(" DATA/test.safetensors\n", w->f);
    fprintf(w->f, "```\n");
}

static void print_load(const Writer *w, const char *end, const char *what) {
    char *file = text_format("%s%s.py", w->name, end);
    cJSON *name = cJSON_CreateString(file);
    char *quoted = cJSON_PrintUnformatted(name);
    fprintf(w->f,
            "from importlib.util import module_from_spec, spec_from_file_location\n"
            "spec = spec_from_file_location(\"reader\", %s)\n"
            "reader = module_from_spec(spec)\n"
            "spec.loader.exec_module(reader)\n"
            "%s = reader.%s\n",
            quoted, what, what);
    cJSON_free(quoted);
    cJSON_Delete(name);
    mem_free(file);
}

/* Of a module whose name may be no word of Python's, and have dots. */
static void print_import(const Writer *w, const char *end, const char *what) {
    static const char digits[] = "0123456789",
                      word[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (!strspn(w->name, digits) && !w->name[strspn(w->name, word)])
        fprintf(w->f, "from %s%s import %s\n", w->name, end, what);
    else
        print_load(w, end, what);
}

/* What a document is to come as: the ids of what it is made of. */
static void print_ids(const Writer *w, const Task *task) {
    if (!task || (!task->vocab && task->tokens == TOKENS_VALUES)) {
        fputs("\n\nIds are those of the set that it was trained on.\n", w->f);
    } else if (task->words) {
        fputs("\n\nIds, from 0:", w->f);
        for (int i = 0; i < task->vocab && task->words[i]; i++)
            fprintf(w->f, " `%s`", task->words[i]);
        fputs(".\n", w->f);
    } else if (task->tokens == TOKENS_VALUES) {
        fprintf(w->f, "\n\nIds: values from 0 to %d.\n", task->vocab - 1);
    } else {
        fprintf(w->f, "\n\nIds: %s.\n",
                task->tokens == TOKENS_BYTES ? "a text's bytes, each plus 1"
                                             : "a picture's grey levels, 0 to 255, row by row");
    }
}

static void print_class(const Writer *w, const char *name) {
    fputc(' ', w->f);
    if (strchr(name, '`'))
        text_markdown(w->f, name);
    else
        fprintf(w->f, "`%s`", name);
}

/* What its outputs are for. */
static void print_classes(const Writer *w, const Task *task) {
    const ClassNames *own = &w->c->facts->class_names;
    const int K = task && task->vocab ? task->classes : w->c->facts->classes;
    if (!task_class(task, own, 0)) return;
    fputs("Classes, from 0:", w->f);
    for (int k = 0; k < K; k++) print_class(w, task_class(task, own, k));
    fputs(".\n", w->f);
}

static void print_reading(const Writer *w) {
    const Task *task = task_find(config_text(w, "task"));
    if (task) task = task_of_kind(task, w->c->facts->ids, w->c->facts->per_example);
    fprintf(w->f,
            "\n## Reading it\n\n`%s.safetensors` has a tensor for each parameter, by the names in "
            "docs/method.md of the program, and\nthe config in its metadata.",
            w->name);
    print_ids(w, task);
    print_classes(w, task);
    if (!w->c->python) return;
    fprintf(w->f,
            "\nThe files of Python beside it need nothing else of the program:\n\n```python\n");
    print_import(w, "_numpy", "Model");
    fputs("Model().logits(ids)    # token ids of a document, or of two: logits(a, b)\n\n", w->f);
    print_import(w, "_torch", "load");
    fputs("load()([ids])    # a batch of documents, or of pairs (a, b)\n```\n", w->f);
}

static void print_config(const Writer *w, const char *title, const cJSON *config) {
    if (!config) return;
    fprintf(w->f, "\n## %s\n\n```json\n", title);
    json_print(w->f, config);
    fputs("```\n", w->f);
}

/* ---- the whole ---- */

static void print_head(const Writer *w) {
    const Task *task = task_find(config_text(w, "task"));
    const AttnMech *mechanism = attn_find(config_text(w, "model.attention.type"));
    fprintf(w->f, "---\nlibrary_name: cast\ntags:\n- long-range-arena\n");
    if (task) fprintf(w->f, "- %s\n", task->name);
    if (mechanism) fprintf(w->f, "- %s\n", mechanism->name);
    fprintf(w->f, "---\n# ");
    text_markdown(w->f, w->name);
    fprintf(w->f, "\n\n| | |\n| --- | --- |\n");
}

static void print_card(const Writer *w) {
    print_head(w);
    print_model(w);
    print_training(w);
    if (w->run) {
        print_accuracy(w);
        print_seeds(w);
    }
    print_commands(w);
    print_reading(w);
    print_config(w, "Config", w->c->from->run.config);
    print_config(w, "Config of the first weights", first_config(w));
}

bool card_write(const char *path, const Card *c, Err *err) {
    AtomicFile a;
    const char *slash = strrchr(c->weights, '/'), *name = slash ? slash + 1 : c->weights;
    Writer w = {.c = c, .run = c->from->run.dir[0] ? &c->from->run : NULL};
    if (!atomic_open(&a, path, KIND_CARD, err)) return false;
    snprintf(w.name, sizeof w.name, "%.*s", (int)(strlen(name) - strlen(".safetensors")), name);
    err_mask(w.name);
    w.f = a.f;
    print_card(&w);
    return atomic_commit(&a, err);
}
