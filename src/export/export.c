#define _GNU_SOURCE /* memrchr */
#include "export/export.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "export/card.h"
#include "export/reader.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "train/identity.h"

enum { WEIGHTS, CARD, NUMPY, TORCH, FILES };
static const char *const ends[FILES] = {".safetensors", ".md", "_numpy.py", "_torch.py"};
static const FileKind kinds[FILES] = {KIND_WEIGHTS, KIND_CARD, KIND_READER, KIND_READER};

typedef struct Export {
    const ExportRequest *r;
    Source from;
    StFile file;
    Facts facts; /* of a set of one's own */
    char path[FILES][FILE_PATH_MAX];
    int files; /* that are wanted */
} Export;

/* ---- names ---- */

/* NAME.safetensors is NAME too. */
static bool name_files(Export *e, Err *err) {
    const char *out = e->r->out;
    const size_t end = strlen(ends[WEIGHTS]);
    size_t n = strlen(out);
    if (text_ends(out, ends[WEIGHTS]) && n > end && out[n - end - 1] != '/') n -= end;
    const char *slash = memrchr(out, '/', n), *name = slash ? slash + 1 : out;
    if (strspn(name, ".") >= n - (size_t)(name - out))
        return err_set(err, EX_USAGE, "--out: '%s' is no NAME of a file", out);
    for (int i = 0; i < FILES; i++)
        if (snprintf(e->path[i], FILE_PATH_MAX, "%.*s%s", (int)n, out, ends[i]) >= FILE_PATH_MAX)
            return err_set(err, EX_USAGE, "--out: %.80s...: this name is too long", out);
    return true;
}

/* Told before anything is written. */
static bool may_write(const Export *e, Err *err) {
    if (file_same(e->path[WEIGHTS], e->from.path))
        return err_set(err, EX_USAGE, "--out: %s is what is to be exported", e->from.path);
    for (int i = 0; i < e->files; i++)
        if (!kind_may_replace(e->path[i], kinds[i], err)) return false;
    return true;
}

static bool make_dir(const Export *e, Err *err) {
    char dir[FILE_PATH_MAX];
    const char *slash = strrchr(e->path[WEIGHTS], '/');
    if (!slash || slash == e->path[WEIGHTS]) return true;
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - e->path[WEIGHTS]), e->path[WEIGHTS]);
    return file_make_dirs(dir, err);
}

/* ---- weights ---- */

static int take_tensors(const Export *e, StTensor *t) {
    int n = 0;
    for (int i = 0; i < e->file.ntensors; i++) {
        const char *name = e->file.tensors[i].name;
        if (params_is_state(name)) continue;
        t[n] = *params_tensor(&e->file, name);
        t[n++].name = name;
    }
    return n;
}

/* What the readers in Python take as it stands: with the keys that an older version did not have.
 * To be freed. */
static char *config_text(const Export *e) {
    cJSON *config = cJSON_Duplicate(e->from.run.config, true);
    config_complete(config);
    char *text = json_text(config);
    cJSON_Delete(config);
    return text;
}

/* Training writes no others, but files come from anywhere. */
static size_t count_bad(const StTensor *t, size_t values) {
    const float *singles = t->data;
    const double *doubles = t->data;
    size_t bad = 0;
    for (size_t i = 0; i < values; i++)
        bad += (size_t)!isfinite(t->dtype == DT_F32 ? (double)singles[i] : doubles[i]);
    return bad;
}

static bool are_finite(const Export *e, const StTensor *t, int n, Err *err) {
    for (int i = 0; i < n; i++) {
        const size_t values = t[i].bytes / (t[i].dtype == DT_F32 ? sizeof(float) : sizeof(double)),
                     bad = count_bad(&t[i], values);
        if (bad)
            return err_set(err, EX_SOFTWARE,
                           "%s: parameter '%s': %zu of its %zu values %s not finite", e->file.path,
                           t[i].name, bad, values, bad == 1 ? "is" : "are");
    }
    return true;
}

static bool write_weights(const Export *e, Err *err) {
    StTensor *t = mem_alloc((size_t)e->file.ntensors + 1, sizeof *t);
    Identity made;
    char update[32], *config = config_text(e);
    StMeta meta[4 + IDENTITY_PARTS] = {
        {"format", WEIGHTS_FORMAT}, {"update", update}, {"config", config}};
    snprintf(update, sizeof update, "%lld", (long long)e->from.update);
    identity_read(&made, &e->file);
    int nmeta = 3 + identity_meta(&made, meta + 3);
    if (e->facts.text) meta[nmeta++] = (StMeta){FACTS_META, e->facts.text};
    const int n = take_tensors(e, t);
    const bool ok = are_finite(e, t, n, err) &&
                    st_write(e->path[WEIGHTS], KIND_WEIGHTS, t, n, meta, nmeta, err);
    mem_free(config);
    mem_free(t);
    return ok;
}

/* ---- the whole ---- */

static void tell(const Export *e) {
    log_info("from     %s, update %lld", e->from.path, (long long)e->from.update);
    for (int i = 0; i < e->files; i++) log_info("wrote    %s", e->path[i]);
}

/* The benchmark's tasks have none, whatever the file says. */
static bool read_facts(Export *e, Err *err) {
    const char *name = json_string(e->from.run.config, "task");
    const Task *task = name ? task_find(name) : NULL;
    return (task && task->vocab) || facts_read(&e->facts, &e->file, err);
}

static bool write_all(Export *e, Err *err) {
    const Card card = {&e->from, &e->file, &e->facts, e->path[WEIGHTS], e->r->python};
    if (e->r->python && !reader_fits(&e->from, &e->file, err)) return false;
    const bool ok = may_write(e, err) && make_dir(e, err) && write_weights(e, err) &&
                    card_write(e->path[CARD], &card, err) &&
                    (!e->r->python || (reader_write(e->path[NUMPY], READER_NUMPY, err) &&
                                       reader_write(e->path[TORCH], READER_TORCH, err)));
    if (ok) tell(e);
    return ok;
}

bool export_model(const ExportRequest *r, Err *err) {
    Export e = {.r = r, .files = r->python ? FILES : NUMPY};
    const SourceWhich which = r->last ? SOURCE_LAST : SOURCE_BEST;
    if (!name_files(&e, err) || !source_open(&e.from, &e.file, r->place, which, err)) return false;
    const bool ok = read_facts(&e, err) && write_all(&e, err);
    facts_close(&e.facts);
    st_close(&e.file);
    source_close(&e.from);
    return ok;
}
