#include "train/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/commit.h"
#include "core/cpu.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/ranks.h"
#include "core/version.h"
#include "io/json.h"
#include "io/json_print.h"
#include "train/config.h"

bool rundir_name(RunDir *r, const char *dir, Err *err) {
    *r = (RunDir){.lock = LOCK_NONE};
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    return file_in(r->last, dir, "last.safetensors", err) &&
           file_in(r->best, dir, "best.safetensors", err) &&
           file_in(r->rollback, dir, "rollback.safetensors", err) &&
           file_in(r->spare, dir, "room", err) && file_in(r->metrics, dir, "metrics.jsonl", err) &&
           file_in(r->config, dir, "config.json", err) && file_in(r->env, dir, "env.json", err);
}

/* ---- room ---- */

/* What a file lacks of so many bytes. */
static double lacks(const char *path, double bytes) {
    struct stat st;
    const double has = stat(path, &st) == 0 ? (double)st.st_size : 0;
    return bytes > has ? bytes - has : 0;
}

/* A file of so many bytes that has no name by now. Till then it has that of a temporary, which the
 * next start takes away. -1 and errno. */
static int take(const RunDir *r) {
    char path[FILE_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s.tmp.%ld", r->spare, (long)getpid());
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    int why = unlink(path) != 0 ? errno : 0;
    if (!why)
        while ((why = posix_fallocate(fd, 0, (off_t)r->checkpoint)) == EINTR) {}
    /* Where it cannot allocate there are the figures alone. */
    if (!why || why == EOPNOTSUPP || why == EINVAL || why == ENOSYS) return fd;
    close(fd);
    errno = why;
    return -1;
}

bool rundir_give_room(RunDir *r) {
    if (r->rooms == 0) return false;
    close(r->room[--r->rooms]);
    return true;
}

/* Those kept that are still to come. */
static int lacks_kept(const RunDir *r) {
    const int there = r->kept ? kept_count(r->dir) : 0;
    return there < r->kept ? r->kept - there : 0;
}

bool rundir_keep_room(RunDir *r) {
    const int wanted = 1 + !file_exists(r->last) + !file_exists(r->best) +
                       (r->goes_back && !file_exists(r->rollback)) + lacks_kept(r);
    while (r->rooms > wanted) rundir_give_room(r);
    while (r->rooms < wanted) {
        const int fd = take(r);
        if (fd < 0) return false;
        r->room[r->rooms++] = fd;
    }
    return true;
}

bool rundir_take_room(RunDir *r, size_t checkpoint, size_t metrics, bool goes_back, int kept,
                      Err *err) {
    char one[32], more[32], left[32] = "an unknown number";
    struct statvfs fs;
    const double size = (double)checkpoint;
    r->checkpoint = checkpoint;
    r->goes_back = goes_back;
    r->kept = kept;
    const double need = size + lacks(r->last, size) + lacks(r->best, size) +
                        (goes_back ? lacks(r->rollback, size) : 0) + lacks_kept(r) * size +
                        lacks(r->metrics, (double)metrics);
    const bool known = statvfs(r->dir, &fs) == 0 && fs.f_blocks > 0;
    errno = ENOSPC;
    /* With what is kept for root, who may be the one that writes. Quotas and limits are in no
     * figures: who takes it is told. */
    if ((!known || (double)fs.f_bfree * (double)fs.f_frsize >= need) && rundir_keep_room(r))
        return true;
    const int why = errno;
    if (known) format_bytes(left, sizeof left, (double)fs.f_bavail * (double)fs.f_frsize);
    return err_set(err, EX_CANTCREAT,
                   "%s: checkpoints of %s and metrics take %s more there, and %s are free: %s",
                   r->dir, format_bytes(one, sizeof one, size),
                   format_bytes(more, sizeof more, need), left, strerror(why));
}

static bool has_environment(const RunDir *r) {
    Err ignored;
    cJSON *env = file_exists(r->env) ? json_read(r->env, &ignored) : NULL;
    const bool ours = json_string(env, "command") && json_string(env, "version") &&
                      json_string(env, "build") && json_string(env, "numbers");
    cJSON_Delete(env);
    return ours;
}

/* What a start may leave that was ended before it had written env.json. */
static bool is_of_start(const char *path, const char *name) {
    return !strcmp(name, "lock") || atomic_is_temp(name, "env.json") ||
           atomic_is_temp(name, "config.json");
}

/* What it leads to is another run's, as where a directory of links was made to go on elsewhere. */
static bool is_own(const char *path, Err *err) {
    return !file_is_link(path) ||
           err_set(err, EX_CANTCREAT,
                   "%s: is a link, and a run would write over what it leads to: put a copy of that "
                   "in its place, or use another --out",
                   path);
}

static bool all_are_own(const RunDir *r, Err *err) {
    const char *const files[] = {r->last, r->best, r->rollback, r->config, r->env, r->metrics};
    FileList kept;
    Err ignored;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof files / sizeof *files; i++) ok = is_own(files[i], err);
    if (!kept_list(&kept, r->dir, &ignored)) return ok;
    for (int i = 0; ok && i < kept.n; i++) ok = is_own(kept.name[i], err);
    file_list_free(&kept);
    return ok && (!file_has_other_names(r->metrics) ||
                  err_set(err, EX_CANTCREAT,
                          "%s: has other names (hard links), under which its lines would appear "
                          "too: put a copy in its place, or use another --out",
                          r->metrics));
}

bool rundir_check(const RunDir *r, Err *err) {
    if (!all_are_own(r, err)) return false;
    const bool lacks_environment = kind_is(r->last, KIND_CHECKPOINT) &&
                                   (!file_exists(r->config) || kind_is(r->metrics, KIND_METRICS));
    return has_environment(r) || lacks_environment ||
           file_holds_ours(r->dir, is_of_start, "a run's directory", err);
}

bool rundir_open(RunDir *r, Err *err) {
    if (!file_make_dirs(r->dir, err) || !lock_take(&r->lock, r->dir, 0, err)) return false;
    /* Others are written at the start. */
    const char *const late[] = {r->last, r->best, r->rollback, r->spare};
    for (int i = 0; i < 4; i++) atomic_tidy(late[i]);
    kept_tidy(r->dir);
    return true;
}

void rundir_close(RunDir *r) {
    while (rundir_give_room(r)) {}
    lock_release(&r->lock);
}

bool rundir_stands(const RunDir *r, Err *err) {
    return lock_stands(&r->lock, r->dir) ||
           err_set(err, EX_IOERR, "%s was removed or moved while the run was at work in it",
                   r->dir);
}

bool rundir_same_config(const RunDir *r, const cJSON *config, Err *err) {
    if (!file_exists(r->config)) return true;
    cJSON *theirs = json_read(r->config, err);
    if (theirs) config_complete(theirs);
    bool ok = theirs && config_same(theirs, config, r->dir, err);
    if (ok) config_warn_data(theirs, config, r->dir);
    cJSON_Delete(theirs);
    return ok;
}

static cJSON *environment(const char *command) {
    char host[64] = "?", date[32];
    time_t now = time(NULL);
    struct tm utc;
    gethostname(host, sizeof host - 1);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "command", command);
    cJSON_AddStringToObject(o, "started", date);
    cJSON_AddStringToObject(o, "version", CAST_VERSION);
    if (*commit_here()) cJSON_AddStringToObject(o, "commit", commit_here());
    cJSON_AddStringToObject(o, "build", cpu_build());
    cJSON_AddStringToObject(o, "numbers", REAL_NAME);
    cJSON_AddStringToObject(o, "cpu", cpu_describe());
    cJSON_AddStringToObject(o, "blas", gemm_describe());
    cJSON_AddNumberToObject(o, "threads", lanes_threads());
    if (ranks_count() > 1) cJSON_AddNumberToObject(o, "ranks", ranks_count());
    cJSON_AddStringToObject(o, "host", host);
    return o;
}

static size_t size_of(const cJSON *value) {
    char *text = json_text(value);
    const size_t n = strlen(text);
    mem_free(text);
    return n;
}

/* Behind this process' fields those of the processes before it, the first one first. Of a great
 * many the oldest but the first are dropped: a file of JSON has at most JSON_MAX_BYTES, and long
 * commands and sources of data make long entries. */
static void add_earlier(cJSON *env, const char *path) {
    enum { MOST = 500, MOST_BYTES = JSON_MAX_BYTES / 2 };
    Err err;
    cJSON *was = file_exists(path) ? json_read(path, &err) : NULL;
    if (!was) {
        if (file_exists(path)) log_warn("%s; what it told of earlier processes is lost", err.text);
        return;
    }
    cJSON *earlier = cJSON_DetachItemFromObjectCaseSensitive(was, "earlier");
    if (!cJSON_IsArray(earlier)) {
        cJSON_Delete(earlier);
        earlier = cJSON_CreateArray();
    }
    cJSON_AddItemToArray(earlier, was);
    while (cJSON_GetArraySize(earlier) > MOST) cJSON_DeleteItemFromArray(earlier, 1);
    while (cJSON_GetArraySize(earlier) > 1 && size_of(earlier) > MOST_BYTES)
        cJSON_DeleteItemFromArray(earlier, 1);
    cJSON_AddItemToObject(env, "earlier", earlier);
}

bool rundir_describe(const RunDir *r, const cJSON *config, const char *command, bool fast,
                     const cJSON *origin, Err *err) {
    cJSON *env = environment(command);
    if (fast) cJSON_AddTrueToObject(env, "fast");
    if (origin) cJSON_AddItemToObject(env, "init", cJSON_Duplicate(origin, true));
    add_earlier(env, r->env);
    bool ok = json_write(env, r->env, err) && json_write(config, r->config, err);
    cJSON_Delete(env);
    return ok;
}

bool rundir_add(const RunDir *r, const char *name, cJSON *item, Err *err) {
    cJSON *env = rundir_stands(r, err) ? json_read(r->env, err) : NULL;
    if (!env) {
        cJSON_Delete(item);
        return false;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(env, name);
    cJSON_AddItemToObject(env, name, item);
    const bool ok = json_write(env, r->env, err);
    cJSON_Delete(env);
    return ok;
}
