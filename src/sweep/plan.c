#include "sweep/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "train/begin.h"
#include "train/run.h"

/* ---- names of files ---- */

static void path_in(const Plan *p, char path[FILE_PATH_MAX], const char *name) {
    snprintf(path, FILE_PATH_MAX, "%s/%s", p->dir, name);
}

void plan_run_dir(const Plan *p, int run, char dir[FILE_PATH_MAX]) {
    path_in(p, dir, p->runs[run].name);
}

static bool check_name(const Plan *p, Err *err) {
    enum { BELOW = GRID_NAME_SIZE + 64 };
    return strlen(p->dir) <= FILE_PATH_MAX - BELOW ||
           err_set(err, EX_CANTCREAT, "%.80s...: this name is too long", p->dir);
}

/* What may be in the directory of a first sweep: what was left of one that was ended at its start,
 * sweep.json of one that has begun since we looked for it, which is read again behind the lock, and
 * directories of runs, which it may take for its own, or of other sweeps. */
static bool is_of_sweep(const char *path, const char *name) {
    char inner[FILE_PATH_MAX];
    Err ignored;
    return !strcmp(name, "lock") || !strcmp(name, "sweep.json") ||
           atomic_is_temp(name, "sweep.json") ||
           (file_in(inner, path, "config.json", &ignored) && file_exists(inner)) ||
           (file_in(inner, path, "sweep.json", &ignored) && file_exists(inner));
}

static bool check_place(const Plan *p, Err *err) {
    if (run_is_there(p->dir))
        return err_set(err, EX_CANTCREAT,
                       "%s: is the directory of a run, as it holds a config.json; a sweep has one "
                       "directory a run: use another --out",
                       p->dir);
    return json_at(p->record, "base") ||
           file_holds_ours(p->dir, is_of_sweep, "a sweep's directory", err);
}

/* ---- runs that are there ---- */

static void add_there(cJSON *there, const Plan *p, const char *name) {
    char path[FILE_PATH_MAX + 300];
    Err ignored;
    snprintf(path, sizeof path, "%s/%s/config.json", p->dir, name);
    /* One that cannot be read is told when a run is to be made there. */
    cJSON *config = file_exists(path) ? json_read(path, &ignored) : NULL;
    if (!config) return;
    config_complete(config);
    cJSON_AddItemToObject(there, name, config);
}

/* The configs of runs by their directories' names, into an object. */
static bool runs_there(cJSON *there, const Plan *p, Err *err) {
    FileList names;
    if (!file_exists(p->dir)) return true;
    if (!file_list(&names, p->dir, "", "", err)) return false;
    for (int i = 0; i < names.n; i++) {
        const char *name = strrchr(names.name[i], '/') + 1;
        if (strlen(name) < GRID_NAME_SIZE) add_there(there, p, name);
    }
    file_list_free(&names);
    return true;
}

static bool equal_at(const cJSON *a, const cJSON *b, const char *key) {
    const cJSON *x = json_at(a, key), *y = json_at(b, key);
    return x ? y && cJSON_Compare(x, y, true) : !y;
}

/* Of what the sweep varies, a key that differs; NULL: none. */
static const char *other_key(const Plan *p, const cJSON *theirs, const cJSON *ours) {
    for (int i = 0; i < p->grid.nkeys; i++)
        if (p->grid.keys[i].named && !equal_at(theirs, ours, p->grid.keys[i].key))
            return p->grid.keys[i].key;
    const cJSON *keys = json_at(p->record, "keys");
    for (const cJSON *k = keys ? keys->child : NULL; k; k = k->next)
        if (!equal_at(theirs, ours, k->string)) return k->string;
    return NULL;
}

/* Whether a config is that of a run: what may differ in a run that goes on may not where that is
 * what the sweep varies. */
static bool same_run(const Plan *p, const cJSON *theirs, const cJSON *ours, const char *where,
                     Err *err) {
    if (!config_same(theirs, ours, where, err)) return false;
    const char *other = other_key(p, theirs, ours);
    if (!other) return true;
    return err_set(err, EX_CONFIG, "%s holds a run of another %s. Use another --out, or delete it",
                   where, other);
}

/* The directory of the run: the one that the grid calls so, or another that has its config. */
static bool find_dir(Plan *p, int run, const cJSON *there, const cJSON *ours, Err *err) {
    PlanRun *r = &p->runs[run];
    char where[FILE_PATH_MAX];
    grid_name(&p->grid, run, r->name);
    plan_run_dir(p, run, where);
    const cJSON *theirs = cJSON_GetObjectItemCaseSensitive(there, r->name);
    if (theirs) return same_run(p, theirs, ours, where, err);
    cJSON_ArrayForEach(theirs, there) {
        Err ignored;
        /* Of the two conditions the quick one first: most runs differ in what is varied. */
        if (other_key(p, theirs, ours) || !config_same(theirs, ours, "", &ignored)) continue;
        snprintf(r->name, sizeof r->name, "%s", theirs->string);
        break;
    }
    return true;
}

/* ---- one run ---- */

/* Of the training split, as far as is known: data may be still to be made. */
static double examples_of(const Config *c) {
    enum { SOME = 10000 };
    const int64_t n = begin_examples(c);
    return n > 0 ? (double)n : SOME;
}

/* Documents at their greatest length: what counts is how runs compare. */
static double work_of(const Config *c) {
    const double usual_flops = 1e11; /* a second, for those that have a time instead */
    const TrainConf *t = &c->train;
    if (t->minutes > 0) return t->minutes * 60 * usual_flops;
    if (t->petaflops > 0) return t->petaflops * 1e15 / 3; /* forward alone, as below */
    const double an_update = (double)t->batch * t->accumulate;
    const double samples =
        t->steps ? t->steps * an_update : t->epochs * (1 - c->holdout) * examples_of(c);
    return samples * c->model.task.per_example * model_flops(&c->model, c->model.conf.max_length);
}

/* With train.petaflops, by what it had before: more of them are as many more updates. */
static double updates_of(const TrainConf *t, const Run *there) {
    if (t->petaflops <= 0) return t->steps;
    return (double)run_updates(there) * t->petaflops /
           run_number(there, "train.petaflops", t->petaflops);
}

/* The share of its training that a run has behind it. */
static double share_made(const TrainConf *t, const Run *there) {
    const RunLine l = run_made(there);
    const double updates = updates_of(t, there);
    const double share = t->minutes > 0 ? l.value[RUN_SECONDS] / (t->minutes * 60)
                         : updates > 0  ? (double)l.step / updates
                                        : l.value[RUN_EPOCH] / (double)t->epochs;
    return share > 0 ? fmin(share, 1) : 0;
}

/* Whether the run's config has the length of `now`; one of an older version lacks keys. */
static bool is_as_long(const Run *there, const cJSON *now) {
    static const char *const keys[] = {"train.steps", "train.petaflops", "train.epochs",
                                       "train.minutes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (run_number(there, keys[i], 0) != json_at(now, keys[i])->valuedouble) return false;
    return true;
}

/* How far it is, or whether it could begin here; one that is to be longer than it was is not done.
 */
static bool look_at(Plan *p, int run, const Config *c, Err *err) {
    PlanRun *r = &p->runs[run];
    char dir[FILE_PATH_MAX];
    Run there;
    plan_run_dir(p, run, dir);
    r->state = PLAN_NEW;
    if (!run_is_there(dir)) return p->elsewhere || begin_check(c, err);
    if (!run_read(&there, dir, false, err)) return false;
    r->state = is_as_long(&there, c->resolved) && run_done(&there) ? PLAN_DONE : PLAN_BEGUN;
    r->seconds = run_made(&there).value[RUN_SECONDS];
    r->made = share_made(&c->train, &there);
    run_free(&there);
    return true;
}

static bool load(const Plan *p, int run, Config *c, Err *err) {
    char **overrides = mem_alloc((size_t)p->grid.nkeys + 1, sizeof *overrides);
    const int n = grid_overrides(&p->grid, run, overrides);
    const bool ok = config_load(c, p->config, overrides, n, err);
    mem_free(overrides);
    return ok;
}

/* What is known of a run once it is checked. */
typedef struct Checked {
    Err err;      /* what ends it */
    char *config; /* in one line; NULL: it is none */
} Checked;

/* False only for what ends the sweep. */
static bool check_run(Plan *p, int run, const cJSON *there, Checked *k, Err *err) {
    Config c;
    bool ok = true;
    if (!load(p, run, &c, &k->err)) {
        grid_name(&p->grid, run, p->runs[run].name);
        plan_failed(p, run, PLAN_WRONG, k->err.text);
    } else {
        p->runs[run].work = work_of(&c);
        k->config = json_text(c.resolved);
        ok = find_dir(p, run, there, c.resolved, err);
        if (ok && !look_at(p, run, &c, &k->err)) plan_failed(p, run, PLAN_WRONG, k->err.text);
    }
    config_free(&c);
    return ok;
}

/* ---- all runs ---- */

/* "model.attention" and "model.attention.clusters". */
static bool within(const char *outer, const char *inner) {
    const size_t n = strlen(outer);
    return n > 0 && !strncmp(outer, inner, n) && (inner[n] == '\0' || inner[n] == '.');
}

static bool blames(const Err *e, const char *key) {
    return within(e->key, key) || within(key, e->key);
}

/* A value that no run can have, itself being what is wrong, is misspelt: an error, at once. */
static bool check_values(const Plan *p, const Checked *runs, Err *err) {
    const Grid *g = &p->grid;
    for (int k = 0; k < g->nkeys; k++)
        for (int v = 0; v < g->keys[k].n; v++) {
            int last = -1, good = 0;
            for (int run = 0; run < g->runs; run++) {
                if (grid_value(g, run, k) != v) continue;
                last = run;
                good += p->runs[run].state != PLAN_WRONG || !blames(&runs[run].err, g->keys[k].key);
            }
            if (good) continue;
            *err = runs[last].err;
            return false;
        }
    return true;
}

/* As no run has the name of another, each has a directory of its own. */
static bool check_names(const Plan *p, Err *err) {
    const size_t n = (size_t)p->grid.runs;
    const char **names = mem_alloc(n, sizeof *names);
    const char *twice = NULL;
    for (size_t i = 0; i < n; i++) names[i] = p->runs[i].name;
    qsort(names, n, sizeof *names, text_order);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(names[i - 1], names[i])) twice = names[i];
    mem_free(names);
    return !twice || err_set(err, EX_CONFIG,
                             "%s/%s is the directory of two runs: two combinations "
                             "are the same. Use another --out",
                             p->dir, twice);
}

static int by_config(const void *a, const void *b) {
    return strcmp((*(const Checked *const *)a)->config, (*(const Checked *const *)b)->config);
}

/* Values that are written in other ways, or with their defaults, may come to the same config. */
static bool check_configs(const Plan *p, const Checked *runs, Err *err) {
    const Checked **sorted = mem_alloc((size_t)p->grid.runs, sizeof *sorted);
    const Checked *a = NULL, *b = NULL;
    size_t n = 0;
    for (int i = 0; i < p->grid.runs; i++)
        if (runs[i].config) sorted[n++] = &runs[i];
    qsort(sorted, n, sizeof *sorted, by_config);
    for (size_t i = 1; i < n && !a; i++)
        if (!by_config(&sorted[i - 1], &sorted[i])) a = sorted[i - 1], b = sorted[i];
    mem_free(sorted);
    return !a || err_set(err, EX_CONFIG, "%s and %s are the same config: leave one of them out",
                         p->runs[a - runs].name, p->runs[b - runs].name);
}

static bool check_runs(Plan *p, Err *err) {
    Checked *runs = mem_alloc((size_t)p->grid.runs, sizeof *runs);
    cJSON *there = cJSON_CreateObject();
    bool ok = runs_there(there, p, err);
    for (int i = 0; ok && i < p->grid.runs; i++) ok = check_run(p, i, there, &runs[i], err);
    cJSON_Delete(there);
    ok = ok && check_values(p, runs, err) && check_configs(p, runs, err) && check_names(p, err);
    if (ok && plan_count(p, PLAN_WRONG) == p->grid.runs) {
        *err = runs[0].err;
        ok = false;
    }
    for (int i = 0; i < p->grid.runs; i++) mem_free(runs[i].config);
    mem_free(runs);
    return ok;
}

/* ---- sweep.json ---- */

/* The resolved config of all that is not varied. Where that alone is no config, of the first run
 * that is one; if none is, the sweep is not one either. */
static cJSON *find_base(const Plan *p, Err *err) {
    Config c;
    Err other;
    char **plain = mem_alloc((size_t)p->grid.nkeys + 1, sizeof *plain);
    const int n = grid_plain(&p->grid, plain);
    bool ok = config_load(&c, p->config, plain, n, err);
    for (int i = 0; !ok && i < p->grid.runs; i++) {
        config_free(&c);
        ok = load(p, i, &c, i ? &other : err);
    }
    cJSON *base = ok ? cJSON_Duplicate(c.resolved, true) : NULL;
    config_free(&c);
    mem_free(plain);
    return base;
}

/* Gives the key the value that it has in `from`, or none. */
static void replace(cJSON *config, const char *key, const cJSON *from) {
    char parent[512];
    const char *dot = strrchr(key, '.'), *name = dot ? dot + 1 : key;
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - key) : 0, key);
    cJSON *object = dot ? json_at(config, parent) : config;
    const cJSON *value = json_at(from, key);
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    if (object && value) cJSON_AddItemToObject(object, name, cJSON_Duplicate(value, true));
}

static void replace_varied(cJSON *config, const Grid *g, const cJSON *record, const cJSON *from) {
    const cJSON *keys = json_at(record, "keys");
    for (int i = 0; i < g->nkeys; i++)
        if (g->keys[i].listed) replace(config, g->keys[i].key, from);
    for (const cJSON *k = keys ? keys->child : NULL; k; k = k->next)
        replace(config, k->string, from);
    if (json_at(record, "seeds")) replace(config, SEED_KEY, from);
}

/* What is to be done where bases differ in what config_differences lists. */
static void base_way(const char *list, char *buf, size_t size) {
    const int key = (int)strcspn(list, " ");
    snprintf(buf, size, "Use another --out");
    if (!strstr(list, "), ") && strncmp(list, "model.attention.", strlen("model.attention.")) != 0)
        format_add(buf, size, ", or, to have both in one, %.*s=WAS,NOW", key, list);
}

/* Whether what was swept here before had the same base. A record's base lacks what was varied, but
 * the mechanism, if that was, says which keys are its own: it is completed with ours in place. */
static bool same_base(const Plan *p, const cJSON *base, Err *err) {
    char list[768] = "", way[256];
    const cJSON *was = json_at(p->record, "base");
    if (!was) return true;
    cJSON *theirs = cJSON_Duplicate(was, true);
    replace_varied(theirs, &p->grid, p->record, base);
    config_complete(theirs);
    config_differences(theirs, base, "", list, sizeof list);
    cJSON_Delete(theirs);
    base_way(list, way, sizeof way);
    return !list[0] ||
           err_set(err, EX_CONFIG, "%s holds a sweep of another config: %s. %s", p->dir, list, way);
}

static void add_values(cJSON *list, const GridKey *k) {
    for (int i = 0; i < k->n; i++) {
        cJSON *v = config_value(k->assignment[i]);
        const cJSON *other = list->child;
        while (other && !cJSON_Compare(other, v, true)) other = other->next;
        if (other)
            cJSON_Delete(v);
        else
            cJSON_AddItemToArray(list, v);
    }
}

static cJSON *member(cJSON *object, const char *name, cJSON *otherwise) {
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (item)
        cJSON_Delete(otherwise);
    else
        cJSON_AddItemToObject(object, name, item = otherwise);
    return item;
}

/* Adds this sweep to what p->record has, and takes over `base`. */
static void extend_record(Plan *p, cJSON *base) {
    cJSON *was = cJSON_Duplicate(p->record, true);
    member(p->record, "config", cJSON_CreateString(p->config));
    replace_varied(base, &p->grid, p->record, NULL);
    p->was = cJSON_DetachItemFromObjectCaseSensitive(p->record, "base");
    cJSON_AddItemToObject(p->record, "base", base);
    cJSON *keys = member(p->record, "keys", cJSON_CreateObject());
    for (int i = 0; i < p->grid.nkeys; i++) {
        const GridKey *k = &p->grid.keys[i];
        if (!k->named) continue;
        const bool seeds = p->grid.seeded && i == p->grid.nkeys - 1;
        add_values(member(seeds ? p->record : keys, seeds ? "seeds" : k->key, cJSON_CreateArray()),
                   k);
    }
    p->recorded = cJSON_Compare(was, p->record, true);
    cJSON_Delete(was);
}

static bool bad_record(const char *path, const char *what, Err *err) {
    return err_set(err, EX_DATAERR, "%s: %s; it is not what cast_sweep writes. Use another --out",
                   path, what);
}

/* Into p->record, an empty object where nothing was swept before. */
static bool read_record(Plan *p, Err *err) {
    char path[FILE_PATH_MAX];
    path_in(p, path, "sweep.json");
    if (!file_exists(path)) {
        p->record = cJSON_CreateObject();
        return true;
    }
    p->record = json_read(path, err);
    if (!p->record) {
        if (err->code == EX_CONFIG) err->code = EX_DATAERR;
        return false;
    }
    const cJSON *keys = json_at(p->record, "keys"), *seeds = json_at(p->record, "seeds");
    if (!cJSON_IsObject(json_at(p->record, "base")))
        return bad_record(path, "it has no \"base\"", err);
    if (keys && !cJSON_IsObject(keys)) return bad_record(path, "\"keys\" is no object", err);
    if (seeds && !cJSON_IsArray(seeds)) return bad_record(path, "\"seeds\" is no list", err);
    for (const cJSON *k = keys ? keys->child : NULL; k; k = k->next) {
        if (!cJSON_IsArray(k)) return bad_record(path, "a key's values are no list", err);
        grid_name_key(&p->grid, k->string);
    }
    if (seeds) grid_name_key(&p->grid, SEED_KEY);
    return true;
}

bool plan_record(const Plan *p, Err *err) {
    char path[FILE_PATH_MAX];
    path_in(p, path, "sweep.json");
    atomic_tidy(path);
    return file_make_dirs(p->dir, err) && (p->recorded || json_write(p->record, path, err));
}

/* ---- the plan ---- */

bool plan_open(Plan *p, const PlanRequest *r, Err *err) {
    *p = (Plan){.config = r->config, .dir = r->dir, .elsewhere = r->elsewhere};
    if (!grid_open(&p->grid, r->lists, r->nlists, r->seeds, err)) return false;
    p->runs = mem_alloc((size_t)p->grid.runs, sizeof *p->runs);
    cJSON *base = NULL;
    if (check_name(p, err) && read_record(p, err) && check_place(p, err) &&
        (base = find_base(p, err)) && same_base(p, base, err) && check_runs(p, err)) {
        extend_record(p, base);
        return true;
    }
    cJSON_Delete(base);
    plan_close(p);
    return false;
}

void plan_close(Plan *p) {
    for (int i = 0; i < p->grid.runs; i++) mem_free(p->runs[i].why);
    mem_free(p->runs);
    cJSON_Delete(p->record);
    cJSON_Delete(p->was);
    grid_free(&p->grid);
    *p = (Plan){0};
}

void plan_failed(Plan *p, int run, PlanState state, const char *why) {
    mem_free(p->runs[run].why);
    p->runs[run].why = mem_strdup(why);
    p->runs[run].state = state;
}

int plan_count(const Plan *p, PlanState state) {
    int n = 0;
    for (int i = 0; i < p->grid.runs; i++) n += p->runs[i].state == state;
    return n;
}
