#include "report/find.h"

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/meant.h"

static bool is_new(const RunSet *s, const struct stat *place) {
    for (int i = 0; i < s->n; i++)
        if (s->place[i].st_dev == place->st_dev && s->place[i].st_ino == place->st_ino)
            return false;
    return true;
}

static void grow(RunSet *s) {
    const size_t n = (size_t)s->n;
    if (n & (n - 1)) return;
    s->run = mem_grow(s->run, n ? 2 * n : 1, sizeof *s->run);
    s->place = mem_grow(s->place, n ? 2 * n : 1, sizeof *s->place);
}

static void add(RunSet *s, const char *dir, bool curves) {
    Err err;
    struct stat place = {0};
    if (stat(dir, &place) == 0 && !is_new(s, &place)) return;
    grow(s);
    Run *r = &s->run[s->n];
    if (!run_read(r, dir, curves, &err)) {
        log_warn("%s; left out", err.text);
        return;
    }
    if (!json_string(r->config, "task")) {
        log_warn("%s: its config.json is not of a run: it names no task; left out", dir);
        run_free(r);
        return;
    }
    if (cJSON_IsTrue(json_at(r->env, "fast"))) {
        log_warn("%s: a smoke run (cast_train --fast), which is no result; left out", dir);
        run_free(r);
        return;
    }
    if (r->unread)
        log_warn("%s/metrics.jsonl: %d damaged line%s left out", r->dir, r->unread,
                 r->unread == 1 ? "" : "s");
    s->place[s->n++] = place;
}

static bool look(RunSet *s, const char *dir, bool curves, int levels);

/* Whether there is a run below, damaged or not. What holds none beside others that do is told. */
static bool look_below(RunSet *s, const char *dir, bool curves, int levels) {
    FileList names;
    bool any = false, *found;
    Err err;
    if (!file_list(&names, dir, "", "", &err)) log_warn("%s; left out", err.text);
    found = mem_alloc((size_t)names.n + 1, sizeof *found);
    for (int i = 0; i < names.n; i++)
        any |= found[i] = file_is_dir(names.name[i]) && look(s, names.name[i], curves, levels);
    for (int i = 0; any && i < names.n; i++)
        if (!found[i] && file_is_dir(names.name[i]))
            log_warn("%s: no run there: it has no config.json; left out", names.name[i]);
    mem_free(found);
    file_list_free(&names);
    return any;
}

static bool look(RunSet *s, const char *dir, bool curves, int levels) {
    if (run_is_there(dir)) {
        add(s, dir, curves);
        return true;
    }
    return levels > 0 && look_below(s, dir, curves, levels - 1);
}

bool runs_read(RunSet *s, char *const *paths, int n, bool curves, Err *err) {
    *s = (RunSet){0};
    for (int i = 0; i < n; i++) {
        Err why;
        if (file_exists(paths[i]) && !file_is_dir(paths[i])) {
            log_warn("%s: is a file, not a run's directory; rows of cast_bench and cast_eval are "
                     "read with --what length, growth, cores or points; left out",
                     paths[i]);
        } else if (!file_check_dir(paths[i], &why)) {
            meant_add(paths[i], &why);
            log_warn("%s; left out", why.text);
        } else if (!look(s, paths[i], curves, 2))
            log_warn("%s: neither a run's directory (it has no config.json) nor one of them; left "
                     "out",
                     paths[i]);
    }
    if (s->n > 0) return true;
    runs_free(s);
    return err_set(err, EX_NOINPUT, "no run is left to report on");
}

void runs_free(RunSet *s) {
    for (int i = 0; i < s->n; i++) run_free(&s->run[i]);
    mem_free(s->run);
    mem_free(s->place);
    *s = (RunSet){0};
}
