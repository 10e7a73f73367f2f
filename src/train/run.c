#include "train/run.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/lines.h"
#include "io/schema.h"
#include "train/score.h"

enum { LINE_MAX_BYTES = 1 << 16 };

static const char *const keys[RUN_KEYS] = {
    "epoch",        "loss",    "bits",   "accuracy", "samples_per_s",
    "tokens_per_s", "seconds", "rss_mb", "count",
};

/* ---- lines ---- */

/* A run that goes back to its checkpoint does the steps after it again: the first lines of these
 * go. */
static void add(RunLines *l, const RunLine *line) {
    while (l->n > 0 && l->line[l->n - 1].step >= line->step) l->n--;
    if ((l->n & (l->n - 1)) == 0)
        l->line = mem_grow(l->line, l->n ? 2 * (size_t)l->n : 1, sizeof *line);
    l->line[l->n++] = *line;
}

static void drop_after(RunLines *l, int64_t step) {
    while (l->n > 0 && l->line[l->n - 1].step > step) l->n--;
}

/* A process begins at a checkpoint, or a run goes back to one: what was reported of later updates
 * is still to come, and tests as well. */
static void go_back(Run *r, int64_t step) {
    drop_after(&r->train, step);
    drop_after(&r->val, step);
    r->patience = 0;
    for (int i = 0; i < RUN_TESTS; i++) r->tested[i] = false;
}

/* A digit for four of the examples, the first one its highest bit. */
static void take_answers(Run *r, const cJSON *o) {
    const char *text = json_string(o, "correct");
    const double count = r->test[RUN_BEST].value[RUN_COUNT];
    mem_free(r->correct);
    r->correct = NULL;
    if (!text || !(count > 0 && count <= RUN_MOST_ANSWERS)) return;
    const size_t n = ((size_t)count + 3) / 4;
    if (strlen(text) == n && strspn(text, "0123456789abcdef") == n) r->correct = mem_strdup(text);
}

bool run_answer(const Run *r, int example) {
    const char c = r->correct[example / 4];
    return (c <= '9' ? c - '0' : c - 'a' + 10) & 8 >> example % 4;
}

static bool add_test(Run *r, const cJSON *o, const RunLine *line) {
    static const char *const names[RUN_TESTS] = {"last", "best"};
    const char *which = json_string(o, "which");
    for (int i = 0; i < RUN_TESTS; i++)
        if (which && !strcmp(which, names[i])) {
            /* Tests of other weights: that of the best, which comes second, is still to come. */
            if (i == RUN_LAST && r->test[i].step != line->step) r->tested[RUN_BEST] = false;
            r->test[i] = *line;
            if (i == RUN_BEST) take_answers(r, o);
            r->tested[i] = isfinite(line->value[RUN_LOSS]);
            return true;
        }
    return false;
}

static cJSON *parse(Span t) {
    Err ignored;
    return json_parse(t.at, t.size, LINE_MAX_BYTES, JSON_MAX_DEPTH, "metrics", &ignored);
}

static bool take_numbers(RunLine *line, const cJSON *o) {
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(o, "step");
    if (!cJSON_IsNumber(step) || !(step->valuedouble >= 0 && step->valuedouble < 1e15))
        return false;
    line->step = (int64_t)step->valuedouble;
    for (int i = 0; i < RUN_KEYS; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(o, keys[i]);
        line->value[i] = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    }
    return true;
}

static bool tells_of_data(const cJSON *change) {
    const char *what = json_string(change, "what");
    return what && !strncmp(what, "data.", 5);
}

/* Whether other examples validate from here on: a share of those of training, or their own. */
static bool changes_validation(const Run *r, const cJSON *change) {
    const char *what = json_string(change, "what");
    return what && !strcmp(what, run_number(r, "data.holdout", 0) > 0 ? "data.train" : "data.val");
}

static void add_change(Run *r, const cJSON *o) {
    r->data_changed |= tells_of_data(o);
    if (changes_validation(r, o)) r->val.n = 0;
}

/* The mark of a save comes just before its checkpoint: what stands behind one tells that this was
 * written, but for a run that begins anew. Early ones made no mark, but none ended without a save.
 */
static void note_saves(Run *r, const char *kind, int64_t step) {
    const bool resume = !strcmp(kind, "resume");
    const bool ended = !strcmp(kind, "test") || !strcmp(kind, "patience");
    r->saved = resume ? step > 0 : r->saved || r->saving || ended;
    r->saving = !strcmp(kind, "save") || (r->saving && !resume);
}

static bool add_line(Run *r, const cJSON *o) {
    const char *kind = json_string(o, "kind");
    RunLine line;
    if (!kind || !take_numbers(&line, o)) return false;
    note_saves(r, kind, line.step);
    const bool back = !strcmp(kind, "resume") || !strcmp(kind, "rollback");
    if (!strcmp(kind, "test")) return add_test(r, o, &line);
    if (!strcmp(kind, "train"))
        add(&r->train, &line);
    else if (!strcmp(kind, "val"))
        add(&r->val, &line);
    else if (!strcmp(kind, "patience"))
        r->patience = line.step;
    else if (!strcmp(kind, "change"))
        add_change(r, o);
    else if (back || !strcmp(kind, "save"))
        r->mark = line;
    if (back) go_back(r, line.step);
    return true; /* kinds of later versions are passed over */
}

static bool read_line(Run *r, Span t) {
    cJSON *o = parse(t);
    const bool ok = o && add_line(r, o);
    r->unread += !ok;
    cJSON_Delete(o);
    return ok;
}

/* ---- lines of training ---- */

/* Every line that training writes starts so. Nearly all are of training; without curves the last
 * one before each other line is enough. */
static const char train_start[] = "{\"kind\": \"train\", ";
static bool of_training(Span t) {
    return t.size >= sizeof train_start - 1 && !memcmp(t.at, train_start, sizeof train_start - 1);
}

/* Of lines of training from `first` to t the last that can be read. */
static void read_last(Run *r, const char *first, Span t) {
    while (!read_line(r, t) && t.at > first) {
        const char *end = --t.at;
        while (t.at > first && t.at[-1] != '\n') t.at--;
        t.size = (size_t)(end - t.at);
    }
}

/* The line at *at, which moves behind it. False: a last line without its end is one being written,
 * or torn, and left out. */
static bool next_line(const char **at, const char *end, Span *t) {
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    if (!newline) return false;
    *t = (Span){*at, (size_t)(newline - *at)};
    *at = newline + 1;
    return true;
}

static void read_lines(Run *r, const FileMap *map, bool curves) {
    const char *text = (const char *)map->data, *end = text + map->size, *first = NULL;
    Span last = {0};
    for (Span t; next_line(&text, end, &t);) {
        const bool training = of_training(t);
        if (training && !curves) {
            if (!first) first = t.at;
            last = t;
            continue;
        }
        if (first) read_last(r, first, last);
        first = NULL;
        if (t.size > 0) read_line(r, t);
    }
    if (first) read_last(r, first, last);
    if (text < end) r->unread++;
}

static bool read_metrics(Run *r, bool curves, Err *err) {
    char path[FILE_PATH_MAX + 16];
    FileMap map;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->dir);
    if (file_is_empty(path)) return true;
    if (!file_map(&map, path, err)) return false;
    read_lines(r, &map, curves);
    file_unmap(&map);
    return true;
}

static void take_seconds(Span t, int64_t update, double *seconds, int64_t *told) {
    RunLine line;
    cJSON *o = parse(t);
    const char *kind = json_string(o, "kind");
    const bool tells = kind && (!strcmp(kind, "train") || !strcmp(kind, "save"));
    if (tells && take_numbers(&line, o) && line.step <= update && !isnan(line.value[RUN_SECONDS]))
        *seconds = line.value[RUN_SECONDS], *told = line.step;
    cJSON_Delete(o);
}

bool run_seconds(const char *metrics, int64_t update, double *seconds, int64_t *told, Err *err) {
    FileMap map;
    *seconds = 0, *told = 0;
    if (file_is_empty(metrics)) return true;
    if (!file_map(&map, metrics, err)) return false;
    const char *text = (const char *)map.data, *end = text + map.size;
    for (Span t; next_line(&text, end, &t);) take_seconds(t, update, seconds, told);
    file_unmap(&map);
    return true;
}

bool run_seconds_made(const char *metrics, int64_t update, double *seconds, Err *err) {
    int64_t told;
    if (!run_seconds(metrics, update, seconds, &told, err)) return false;
    if (told < update)
        log_warn("%s: lines are lost: the time that updates %lld to %lld took is not known, and "
                 "counts as none",
                 metrics, (long long)told + 1, (long long)update);
    return true;
}

/* ---- the directory ---- */

static bool read_object(cJSON **o, const char *dir, const char *name, Err *err) {
    char path[FILE_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    *o = json_read(path, err);
    if (!*o && err->code == EX_CONFIG) err->code = EX_DATAERR;
    return *o != NULL;
}

static bool has(const char *dir, const char *name) {
    char path[FILE_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return file_exists(path);
}

bool run_is_there(const char *dir) { return has(dir, "config.json"); }

/* What it tells, people look at alone. */
static void read_env(Run *r) {
    Err err;
    if (has(r->dir, "env.json") && !read_object(&r->env, r->dir, "env.json", &err))
        log_warn("%s; the run is shown without it", err.text);
}

/* Up to three runs in a directory, as a sweep's is; "": it has none. Returns how many it names, and
 * 1 more for others. */
static int name_runs_in(const char *dir, char *buf, size_t size) {
    enum { MOST = 3 };
    FileList names;
    Err ignored;
    int n = 0;
    *buf = '\0';
    if (!file_list(&names, dir, "", "", &ignored)) return 0;
    for (int i = 0; i < names.n && n <= MOST; i++) {
        if (!file_is_dir(names.name[i]) || !run_is_there(names.name[i])) continue;
        format_add(buf, size, "%s%s",
                   n ? ", " : "; one of those in it is meant: ", n < MOST ? names.name[i] : "...");
        n++;
    }
    file_list_free(&names);
    return n;
}

bool run_are_in(const char *dir) {
    char runs[512];
    return !run_is_there(dir) && name_runs_in(dir, runs, sizeof runs) > 1;
}

bool run_check_there(const char *dir, Err *err) {
    char runs[512];
    if (run_is_there(dir)) return true;
    name_runs_in(dir, runs, sizeof runs);
    return err_set(err, EX_NOINPUT, "%s: is a directory, but not a run's: it has no config.json%s",
                   dir, runs);
}

bool run_read(Run *r, const char *dir, bool curves, Err *err) {
    *r = (Run){0};
    if (snprintf(r->dir, sizeof r->dir, "%s", dir) >= (int)sizeof r->dir)
        return err_set(err, EX_NOINPUT, "%.80s...: this name is too long", dir);
    for (size_t n = strlen(r->dir); n > 1 && r->dir[n - 1] == '/';) r->dir[--n] = '\0';
    if (!file_check_dir(dir, err)) return false;
    if (!run_check_there(dir, err)) return false;
    if (!read_object(&r->config, r->dir, "config.json", err) || !read_metrics(r, curves, err)) {
        run_free(r);
        return false;
    }
    read_env(r);
    return true;
}

void run_free(Run *r) {
    mem_free(r->correct);
    cJSON_Delete(r->config);
    cJSON_Delete(r->env);
    mem_free(r->train.line);
    mem_free(r->val.line);
    *r = (Run){0};
}

/* ---- what it says ---- */

double run_number(const Run *r, const char *path, double other) {
    const cJSON *value = json_at(r->config, path);
    return cJSON_IsNumber(value) ? value->valuedouble : other;
}

const cJSON *run_init(const Run *r) {
    const cJSON *init = cJSON_GetObjectItemCaseSensitive(r->env, "init"), *last = NULL, *process;
    cJSON_ArrayForEach(process, cJSON_GetObjectItemCaseSensitive(r->env, "earlier")) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(process, "init");
        if (own) last = own;
    }
    return init ? init : last;
}

/* Runs of older versions do not say: train.best was its default. */
static ScoreBy best_by(const Run *r) {
    const char *by = json_string(cJSON_GetObjectItemCaseSensitive(r->config, "train"), "best");
    char loss[16];
    schema_word(SCORE_BY_CHOICES, SCORE_BY_LOSS, loss, sizeof loss);
    return by && !strcmp(by, loss) ? SCORE_BY_LOSS : SCORE_BY_ACCURACY;
}

const RunLine *run_best(const Run *r) {
    const RunLine *best = NULL;
    const ScoreBy by = best_by(r);
    Score so_far;
    for (int i = 0; i < r->val.n; i++) {
        const RunLine *l = &r->val.line[i];
        if (!isfinite(l->value[RUN_LOSS])) continue;
        const Score score = {l->value[RUN_ACCURACY], l->value[RUN_LOSS]};
        if (!best || score_beats(&score, &so_far, by)) best = l, so_far = score;
    }
    return best;
}

RunLine run_made(const Run *r) {
    const RunLine *l = r->train.n ? &r->train.line[r->train.n - 1] : &r->mark;
    return l->step > r->mark.step ? *l : r->mark;
}

int64_t run_updates(const Run *r) {
    const double most = 1e15; /* what can be counted; files may say anything */
    const double steps = run_number(r, "train.steps", 0), epochs = run_number(r, "train.epochs", 0);
    const RunLine made = run_made(r);
    if (steps > 0) return (int64_t)fmin(steps, most);
    if (run_number(r, "train.petaflops", 0) > 0) {
        const double told = json_number(r->env, "updates");
        return told > 0 ? (int64_t)fmin(told, most) : 0;
    }
    if (!(made.value[RUN_EPOCH] > 0 && epochs > 0)) return 0;
    const double an_epoch = round((double)made.step / made.value[RUN_EPOCH]);
    return (int64_t)fmin(epochs * an_epoch, most);
}

/* Its config may give it more time by now than it had. Metrics have nine digits. */
static bool time_is_up(const Run *r) {
    const double minutes = run_number(r, "train.minutes", 0), digits = 1e-8;
    return minutes > 0 && run_made(r).value[RUN_SECONDS] >= minutes * 60 * (1 - digits);
}

/* The update that it ends with, by its config, its patience or its time. */
static int64_t end_of(const Run *r) {
    return r->patience ? r->patience : time_is_up(r) ? run_made(r).step : run_updates(r);
}

bool run_trained(const Run *r) { return end_of(r) > 0 && run_made(r).step >= end_of(r); }

bool run_done(const Run *r) {
    const int64_t end = end_of(r);
    return r->tested[RUN_LAST] && end > 0 && r->test[RUN_LAST].step >= end &&
           (r->tested[RUN_BEST] || !run_best(r));
}

double run_samples_per_s(const Run *r) {
    const RunLine made = run_made(r);
    const double an_update =
        run_number(r, "train.batch", NAN) * run_number(r, "train.accumulate", 1);
    return made.step ? (double)made.step * an_update / made.value[RUN_SECONDS] : NAN;
}
