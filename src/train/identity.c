#include "train/identity.h"

#include <string.h>

#include "core/cpu.h"
#include "core/gemm.h"
#include "core/log.h"
#include "core/version.h"

const char *const identity_names[IDENTITY_PARTS] = {
    "data.train", "data.val", "data.test", "kernels", "processor", "build",
};

static void set(Identity *id, int part, const char *text) {
    snprintf(id->part[part], IDENTITY_TEXT, "%s", text ? text : "");
}

void identity_here(Identity *id, const Loader *f) {
    *id = (Identity){0};
    for (int s = 0; s < SPLITS; s++) set(id, s, loader_hash(f, s));
    set(id, IDENTITY_KERNELS, gemm_kernels());
    set(id, IDENTITY_PROCESSOR, cpu_describe());
    snprintf(id->part[IDENTITY_BUILD], IDENTITY_TEXT, CAST_VERSION ", %s", cpu_build());
}

void identity_read(Identity *id, const StFile *checkpoint) {
    *id = (Identity){0};
    for (int i = 0; i < IDENTITY_PARTS; i++) set(id, i, st_meta(checkpoint, identity_names[i]));
}

int identity_meta(const Identity *id, StMeta meta[IDENTITY_PARTS]) {
    int n = 0;
    for (int i = 0; i < IDENTITY_PARTS; i++)
        if (id->part[i][0]) meta[n++] = (StMeta){identity_names[i], id->part[i]};
    return n;
}

bool identity_same(const Identity *a, const Identity *b) {
    int same = 0;
    for (int i = 0; i < IDENTITY_PARTS; i++) same += !strcmp(a->part[i], b->part[i]);
    return same == IDENTITY_PARTS;
}

bool identity_differs(const Identity *was, const Identity *now, int part) {
    const char *a = was->part[part], *b = now->part[part];
    return *a && *b && strcmp(a, b) != 0;
}

bool identity_other_data(const Identity *was, const Identity *now) {
    bool other = false;
    for (int s = 0; s < SPLITS; s++) other |= identity_differs(was, now, s);
    return other;
}

enum { SAID = 512 };

static const char *other_data(char text[SAID], const Identity *was, const Identity *now,
                              const Loader *f, int split, const char *checkpoint) {
    snprintf(text, SAID, "%s: has hash %.16s, but %s was made with data of hash %.16s",
             f->split[split].file.path, now->part[split], checkpoint, was->part[split]);
    return text;
}

static bool check_data(const Identity *was, const Identity *now, const Loader *f,
                       const char *checkpoint, bool accept, Err *err) {
    char text[SAID];
    for (int s = 0; s < SPLITS; s++) {
        if (!identity_differs(was, now, s)) continue;
        other_data(text, was, now, f, s, checkpoint);
        if (!accept)
            return err_set(
                err, EX_CONFIG,
                "%s. Say where those are by data.dir=DIR, and where the run is by --out; "
                "or 'cast_train ... --accept-data' goes on with these, which "
                "metrics.jsonl will tell",
                text);
        log_warn("%s; going on with other data", text);
    }
    return true;
}

/* Whether it says less than is known here. */
static bool is_silent(const Identity *was, const Identity *now) {
    for (int i = 0; i < IDENTITY_PARTS; i++)
        if (now->part[i][0] && !was->part[i][0]) return true;
    return false;
}

bool identity_goes_on(const Identity *was, const Identity *now, const Loader *f,
                      const char *checkpoint, bool accept, Err *err) {
    if (!check_data(was, now, f, checkpoint, accept, err)) return false;
    if (is_silent(was, now))
        log_warn("%s: does not say what it was made with, as those of 0.1.0 do not: the data and "
                 "the build here are taken for that, and noted from here on",
                 checkpoint);
    for (int i = SPLITS; i < IDENTITY_PARTS; i++)
        if (identity_differs(was, now, i))
            log_warn("%s: goes on with a change of %s (%s, now %s): its bits will not be those of "
                     "a run without it",
                     checkpoint, identity_names[i], was->part[i], now->part[i]);
    return true;
}

bool identity_no_data(const Config *c, const char *checkpoint, Err *err) {
    char here[FILE_PATH_MAX];
    if (err->code != EX_NOINPUT) return false;
    return err_set(err, EX_NOINPUT,
                   "%s. The data are looked for in %s, from %s. %s goes on with those that it was "
                   "made with, and none are made for it: call it from where it was begun, or say "
                   "where they are by data.dir=DIR, and where the run is by --out",
                   err->text, c->data_dir, file_here(here), checkpoint);
}

void identity_warn_data(const Identity *was, const Loader *f, const char *checkpoint) {
    Identity now;
    char text[SAID];
    identity_here(&now, f);
    for (int s = 0; s < SPLITS; s++)
        if (identity_differs(was, &now, s))
            log_warn("%s", other_data(text, was, &now, f, s, checkpoint));
}
