#include "train/rundir.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
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
           file_in(r->metrics, dir, "metrics.jsonl", err) &&
           file_in(r->config, dir, "config.json", err) && file_in(r->env, dir, "env.json", err);
}

bool rundir_try_room(const RunDir *r, size_t bytes, Err *err) {
    static const char zeros[1 << 16];
    char size[32];
    AtomicFile a;
    if (!atomic_open(&a, r->last, KIND_ANY, err)) return false;
    for (size_t done = 0; done < bytes && !a.why; done += sizeof zeros)
        atomic_write(&a, zeros, bytes - done < sizeof zeros ? bytes - done : sizeof zeros);
    int why = a.why;
    if (!why && (fflush(a.f) != 0 || fsync(fileno(a.f)) != 0)) why = errno;
    atomic_abandon(&a);
    if (!why) return true;
    return err_set(err, EX_CANTCREAT, "%s: a checkpoint of %s cannot be written: %s", r->dir,
                   format_bytes(size, sizeof size, (double)bytes), strerror(why));
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

bool rundir_check(const RunDir *r, Err *err) {
    return has_environment(r) || (kind_is(r->last, KIND_CHECKPOINT) && !file_exists(r->config)) ||
           file_holds_ours(r->dir, is_of_start, "a run's directory", err);
}

bool rundir_open(RunDir *r, Err *err) {
    if (!file_make_dirs(r->dir, err) || !lock_take(&r->lock, r->dir, 0, err)) return false;
    atomic_tidy(r->best); /* other files are written at every start */
    return true;
}

void rundir_close(RunDir *r) { lock_release(&r->lock); }

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
    cJSON_AddStringToObject(o, "build", cpu_build());
    cJSON_AddStringToObject(o, "numbers", REAL_NAME);
    cJSON_AddStringToObject(o, "cpu", cpu_describe());
    cJSON_AddStringToObject(o, "blas", gemm_describe());
    cJSON_AddNumberToObject(o, "threads", lanes_threads());
    cJSON_AddStringToObject(o, "host", host);
    return o;
}

/* Behind this process' fields those of the processes before it, the first one first. Of a great
 * many the oldest but the first are dropped: a file of JSON has at most JSON_MAX_BYTES. */
static void add_earlier(cJSON *env, const char *path) {
    enum { MOST = 500 };
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
    cJSON_AddItemToObject(env, "earlier", earlier);
}

bool rundir_describe(const RunDir *r, const cJSON *config, const char *command, Err *err) {
    cJSON *env = environment(command);
    add_earlier(env, r->env);
    bool ok = json_write(env, r->env, err) && json_write(config, r->config, err);
    cJSON_Delete(env);
    return ok;
}
