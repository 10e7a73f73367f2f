#include "report/find.h"

#include <sys/stat.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"

/* The directory's place on its disk, by which it is known under any name. */
typedef struct Place {
    dev_t dev;
    ino_t ino;
} Place;

typedef struct Search {
    RunSet *set;
    Place *seen; /* of each run in the set */
    bool curves;
} Search;

static bool is_new(Search *s, const char *dir, Place *place) {
    struct stat st;
    *place = (Place){0};
    if (stat(dir, &st) != 0) return true;
    *place = (Place){st.st_dev, st.st_ino};
    for (int i = 0; i < s->set->n; i++)
        if (s->seen[i].dev == st.st_dev && s->seen[i].ino == st.st_ino) return false;
    return true;
}

static void grow(Search *s) {
    const size_t n = (size_t)s->set->n;
    if (n & (n - 1)) return;
    s->set->run = mem_grow(s->set->run, n ? 2 * n : 1, sizeof *s->set->run);
    s->seen = mem_grow(s->seen, n ? 2 * n : 1, sizeof *s->seen);
}

static void add(Search *s, const char *dir) {
    Err err;
    Place place;
    if (!is_new(s, dir, &place)) return;
    grow(s);
    Run *r = &s->set->run[s->set->n];
    if (!run_read(r, dir, s->curves, &err)) {
        log_warn("%s; left out", err.text);
        return;
    }
    if (!json_string(r->config, "task")) {
        log_warn("%s: its config.json is not of a run: it names no task; left out", dir);
        run_free(r);
        return;
    }
    if (r->unread)
        log_warn("%s/metrics.jsonl: %d damaged line%s left out", r->dir, r->unread,
                 r->unread == 1 ? "" : "s");
    s->seen[s->set->n++] = place;
}

static bool look(Search *s, const char *dir, int levels);

/* Whether there is a run below, damaged or not. What holds none beside others that do is told. */
static bool look_below(Search *s, const char *dir, int levels) {
    FileList names;
    bool any = false, *found;
    file_list(&names, dir, "", "");
    found = mem_alloc((size_t)names.n + 1, sizeof *found);
    for (int i = 0; i < names.n; i++)
        any |= found[i] = file_is_dir(names.name[i]) && look(s, names.name[i], levels);
    for (int i = 0; any && i < names.n; i++)
        if (!found[i] && file_is_dir(names.name[i]))
            log_warn("%s: no run there: it has no config.json; left out", names.name[i]);
    mem_free(found);
    file_list_free(&names);
    return any;
}

static bool look(Search *s, const char *dir, int levels) {
    if (run_is_there(dir)) {
        add(s, dir);
        return true;
    }
    return levels > 0 && look_below(s, dir, levels - 1);
}

bool runs_read(RunSet *set, char *const *paths, int n, bool curves, Err *err) {
    Search s = {set, NULL, curves};
    *set = (RunSet){0};
    for (int i = 0; i < n; i++) {
        Err why;
        if (!file_check_dir(paths[i], &why))
            log_warn("%s; left out", why.text);
        else if (!look(&s, paths[i], 2))
            log_warn("%s: neither a run's directory (it has no config.json) nor one of them; left "
                     "out",
                     paths[i]);
    }
    mem_free(s.seen);
    if (set->n > 0) return true;
    runs_free(set);
    return err_set(err, EX_NOINPUT, "no run is left to report on");
}

void runs_free(RunSet *s) {
    for (int i = 0; i < s->n; i++) run_free(&s->run[i]);
    mem_free(s->run);
    *s = (RunSet){0};
}
