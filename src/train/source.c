#include "train/source.h"

#include <stdlib.h>
#include <string.h>

#include "io/meant.h"
#include "train/kept.h"
#include "train/state.h"

static bool too_long(const char *place, Err *err) {
    return err_set(err, EX_NOINPUT, "%.80s...: this name is too long", place);
}

static bool name_checkpoint(Source *s, const char *which, Err *err) {
    s->which = which;
    const int n = snprintf(s->path, sizeof s->path, "%s/%s.safetensors", s->run.dir, which);
    return n < (int)sizeof s->path || too_long(s->run.dir, err);
}

bool source_is_last(const Source *s) { return !strcmp(s->which, "last"); }

bool source_list_kept(const Source *s, FileList *paths, Err *err) {
    if (!kept_list(paths, s->run.dir, err)) return false;
    if (paths->n) return true;
    file_list_free(paths);
    return err_set(err, EX_NOINPUT,
                   "%s: has no at-<update>.safetensors to average: cast_train keeps those of the "
                   "last validations with train.keep",
                   s->run.dir);
}

static bool find_newest(Source *s, Err *err) {
    FileList paths;
    s->which = "average";
    if (!source_list_kept(s, &paths, err)) return false;
    snprintf(s->path, sizeof s->path, "%s", paths.name[paths.n - 1]);
    file_list_free(&paths);
    return true;
}

static const char *why_missing(const Source *s, SourceWhich which) {
    char other[FILE_PATH_MAX + 32];
    snprintf(other, sizeof other, "%s/last.safetensors", s->run.dir);
    if (which == SOURCE_BEST && file_exists(other))
        return "no validation was made yet; --last takes last.safetensors";
    return run_made(&s->run).step > 0
               ? "there are metrics of its training alone; its checkpoints are elsewhere"
               : "training has saved nothing there yet";
}

static bool find_checkpoint(Source *s, SourceWhich which, Err *err) {
    char other[FILE_PATH_MAX + 32];
    if (which == SOURCE_AVERAGE) return find_newest(s, err);
    if (!name_checkpoint(s, which == SOURCE_LAST ? "last" : "best", err)) return false;
    if (file_exists(s->path)) return true;
    snprintf(other, sizeof other, "%s/last.safetensors", s->run.dir);
    if (which == SOURCE_ANY && file_exists(other)) return name_checkpoint(s, "last", err);
    return err_set(err, EX_NOINPUT, "%s: has no %s.safetensors: %s", s->run.dir, s->which,
                   why_missing(s, which));
}

static bool find_file(Source *s, const char *place, SourceWhich which, Err *err) {
    s->which = "tensors";
    if (which == SOURCE_LAST || which == SOURCE_AVERAGE)
        return err_set(err, EX_USAGE, "%s: is no run's directory, so --%s says nothing", place,
                       which == SOURCE_LAST ? "last" : "average");
    return snprintf(s->path, sizeof s->path, "%s", place) < (int)sizeof s->path ||
           too_long(place, err);
}

/* A checkpoint's config is what was trained; a run's config.json must be the same. */
static bool take_config(Source *s, const StFile *f, Err *err) {
    char list[768] = "";
    cJSON *saved = state_config(f, err);
    if (!saved) return false;
    if (s->run.config) config_differences(saved, s->run.config, "", list, sizeof list);
    if (list[0])
        err_set(err, EX_DATAERR,
                "%s: was saved under another config than %s/config.json: %s: it is not of this run",
                f->path, s->run.dir, list);
    if (list[0] || s->run.config)
        cJSON_Delete(saved);
    else
        s->run.config = saved;
    return !list[0];
}

static bool is_format(const StFile *f, const char *format) {
    const char *text = st_meta(f, "format");
    return text && !strcmp(text, format);
}

/* A "format" of ours begins so; another is a framework's: "pt" of PyTorch. */
static bool is_ours(const StFile *f) {
    static const char prefix[] = "cast-";
    const char *format = st_meta(f, "format");
    return format && !strncmp(format, prefix, sizeof prefix - 1);
}

static bool open_weights(Source *s, const StFile *f, Err *err) {
    const char *update = st_meta(f, "update");
    s->which = "weights";
    if (!update || !st_meta(f, "crc32"))
        return err_set(err, EX_DATAERR, "%s: its metadata lacks \"update\" or \"crc32\"", f->path);
    if (!*update || strlen(update) > 18 || strspn(update, "0123456789") != strlen(update))
        return err_set(err, EX_DATAERR, "%s: its metadata's \"update\" is '%.32s', no number",
                       f->path, update);
    s->update = strtoll(update, NULL, 10);
    return st_check_crc(f, err) && take_config(s, f, err);
}

static bool open_checkpoint(Source *s, const StFile *f, Err *err) {
    if (!s->run.dir[0]) s->which = "checkpoint";
    return state_check(f, err) && state_update(f, &s->update, err) && take_config(s, f, err);
}

static bool read_file(Source *s, const StFile *f, SourceWhich which, Err *err) {
    s->update = -1;
    if (!s->run.dir[0] && is_format(f, WEIGHTS_FORMAT)) return open_weights(s, f, err);
    if (which == SOURCE_ANY && !s->run.dir[0] && !is_ours(f)) return st_check_crc(f, err);
    return open_checkpoint(s, f, err);
}

bool source_open(Source *s, StFile *f, const char *place, SourceWhich which, Err *err) {
    *s = (Source){0};
    *f = (StFile){0};
    const bool found = file_is_dir(place)
                           ? run_read(&s->run, place, false, err) && find_checkpoint(s, which, err)
                           : find_file(s, place, which, err);
    if (found && st_open(f, s->path, err) && read_file(s, f, which, err)) return true;
    st_close(f);
    source_close(s);
    return err->code == EX_NOINPUT ? meant_add(place, err) : false;
}

void source_close(Source *s) { run_free(&s->run); }

bool source_open_kept(Source *s, StFile *f, const char *path, Err *err) {
    snprintf(s->path, sizeof s->path, "%s", path);
    if (!st_open(f, path, err)) return false;
    if (open_checkpoint(s, f, err)) return true;
    st_close(f);
    return false;
}
