#include "train/origin.h"

#include <string.h>

#include "core/log.h"
#include "io/json.h"
#include "model/finite.h"

/* ---- what becomes of each parameter ---- */

/* What belongs to a task, or to a length: where its shape is another it is another thing. */
static bool may_be_another(const char *name) {
    static const char *const starts[] = {"tok", "pos", "lm.", "fc1.", "fc2."};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(name, starts[i], strlen(starts[i]))) return true;
    return false;
}

static bool same_width(const Param *p, const StTensor *t) {
    return t->ndim == 2 && p->ndim == 2 && t->shape[1] == p->shape[1];
}

static bool another_shape(const Origin *o, const Param *p, const StTensor *t, const Config *c,
                          Err *err) {
    char there[ST_DESCRIBED], here[ST_DESCRIBED], list[512] = "";
    const cJSON *was = json_at(o->from.run.config, "model"), *now = json_at(c->resolved, "model");
    if (was && now) config_differences(was, now, "model", list, sizeof list);
    return err_set(err, EX_CONFIG, "train.init: %s: tensor '%s' is %s, but this model takes %s%s%s",
                   o->from.path, t->name, st_describe(there, t->dtype, t->ndim, t->shape),
                   st_describe(here, t->dtype, p->ndim, p->shape),
                   list[0] ? ". To start from it, set as it was there: " : "", list);
}

static bool decide(Origin *o, int i, const Config *c, Err *err) {
    const Param *p = &o->params->list[i];
    const StTensor *t = params_tensor(&o->file, p->name);
    OriginPart *part = &o->part[i];
    if (t && t->dtype != DT_F32 && t->dtype != DT_F64)
        return err_set(err, EX_DATAERR, "train.init: %s: tensor '%s' must be F32 or F64, is %s",
                       o->from.path, t->name, dtype_name(t->dtype));
    if (!t)
        *part = ORIGIN_NEW;
    else if (params_same_shape(p, t))
        *part = ORIGIN_TAKEN;
    else if (!strcmp(p->name, "pos.weight") && same_width(p, t))
        *part = ORIGIN_ROWS;
    else if (may_be_another(p->name))
        *part = ORIGIN_NEW;
    else
        return another_shape(o, p, t, c, err);
    o->count[*part]++;
    return true;
}

/* A tensor that no parameter has a use for. */
static bool is_left(const Origin *o, const StTensor *t) {
    return !params_is_state(t->name) && !params_find(o->params, t->name);
}

static bool compare(Origin *o, const Config *c, Err *err) {
    for (int i = 0; i < o->params->count; i++)
        if (!decide(o, i, c, err)) return false;
    for (int i = 0; i < o->file.ntensors; i++)
        o->count[ORIGIN_LEFT] += is_left(o, &o->file.tensors[i]);
    return o->count[ORIGIN_TAKEN] + o->count[ORIGIN_ROWS] > 0 ||
           err_set(err, EX_CONFIG,
                   "train.init: %s: has nothing in common with this model: of its %d tensors none "
                   "is a parameter here, by name and shape",
                   o->from.path, o->file.ntensors);
}

bool origin_open(Origin *o, const Config *c, Err *err) {
    Err why;
    *o = (Origin){0};
    if (!c->train.init[0]) return true;
    if (!source_open(&o->from, &o->file, c->train.init, SOURCE_ANY, &why))
        return err_set(err, why.code, "train.init: %s", why.text);
    o->params = &c->model.params;
    o->part = mem_alloc((size_t)o->params->count, sizeof *o->part);
    if (compare(o, c, err)) return true;
    origin_close(o);
    return false;
}

void origin_close(Origin *o) {
    if (!o->params) return;
    source_close(&o->from);
    st_close(&o->file);
    mem_free(o->part);
    *o = (Origin){0};
}

/* ---- telling ---- */

/* Names in few words: "tok, blocks.0-3: attn norm1 fc1". */
enum { LABELS = 40 };
typedef struct Names {
    char label[LABELS][64];
    int first[LABELS], last[LABELS]; /* blocks; -1: of none */
    int n, more;                     /* more: labels that found no room */
} Names;

static void add_label(Names *s, int block, const char *label, int length) {
    char text[sizeof s->label[0]];
    snprintf(text, sizeof text, "%.*s", length, label);
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->label[i], text) != 0 || (s->first[i] < 0) != (block < 0)) continue;
        if (block < s->first[i]) s->first[i] = block;
        if (block > s->last[i]) s->last[i] = block;
        return;
    }
    s->more += s->n == LABELS;
    if (s->n == LABELS) return;
    memcpy(s->label[s->n], text, sizeof text);
    s->first[s->n] = s->last[s->n] = block;
    s->n++;
}

/* Whether two parameters are of one module: "attn" of one block, "tok". */
static bool one_module(const Param *a, const Param *b) {
    const char *x, *y;
    if (params_block(a->name, &x) != params_block(b->name, &y)) return false;
    const size_t n = strcspn(x, ".");
    return n == strcspn(y, ".") && !strncmp(x, y, n);
}

/* Modules, which the registry has together; one whose parameters fare differently by these. */
static void add_params(Names *s, const Origin *o, OriginPart part) {
    const Params *p = o->params;
    for (int from = 0, to; from < p->count; from = to) {
        bool alike = true;
        for (to = from; to < p->count && one_module(&p->list[from], &p->list[to]); to++)
            alike = alike && o->part[to] == o->part[from];
        for (int i = from; i < to; i++) {
            const char *rest;
            const int block = params_block(p->list[i].name, &rest);
            if (o->part[i] != part) continue;
            add_label(s, block, rest, (int)(alike ? strcspn(rest, ".") : strlen(rest)));
        }
    }
}

static void add_left(Names *s, const Origin *o) {
    for (int i = 0; i < o->file.ntensors; i++) {
        const char *rest;
        const int block = params_block(o->file.tensors[i].name, &rest);
        if (is_left(o, &o->file.tensors[i])) add_label(s, block, rest, (int)strlen(rest));
    }
}

static void print_names(const Names *s, char *text, size_t size) {
    for (int i = 0; i < s->n; i++) {
        const int first = s->first[i], last = s->last[i];
        const bool again =
            i > 0 && first >= 0 && first == s->first[i - 1] && last == s->last[i - 1];
        if (i > 0) format_add(text, size, again ? " " : ", ");
        if (first >= 0 && !again) format_add(text, size, "blocks.%d", first);
        if (last > first && !again) format_add(text, size, "-%d", last);
        format_add(text, size, first >= 0 && !again ? ": %s" : "%s", s->label[i]);
    }
    if (s->more) format_add(text, size, ", and %d more", s->more);
}

static void tell_part(const Origin *o, OriginPart part, const char *what) {
    char text[1024] = "";
    Names names = {.n = 0};
    if (!o->count[part]) return;
    if (part == ORIGIN_LEFT)
        add_left(&names, o);
    else
        add_params(&names, o, part);
    print_names(&names, text, sizeof text);
    log_info("         %s (%d): %s", what, o->count[part], text);
}

static void tell_rows(const Origin *o, const Param *p) {
    const StTensor *t = params_tensor(&o->file, p->name);
    const int64_t rows = t->shape[0] < p->shape[0] ? t->shape[0] : p->shape[0];
    log_info("         taken in part: %s, the first %lld rows of %lld, for %lld here", p->name,
             (long long)rows, (long long)t->shape[0], (long long)p->shape[0]);
}

void origin_tell(const Origin *o) {
    char update[48] = "";
    if (!o->params) return;
    if (o->from.update >= 0)
        snprintf(update, sizeof update, ", update %lld", (long long)o->from.update);
    log_info("init     %s%s", o->from.path, update);
    tell_part(o, ORIGIN_TAKEN, "taken");
    for (int i = 0; i < o->params->count; i++)
        if (o->part[i] == ORIGIN_ROWS) tell_rows(o, &o->params->list[i]);
    tell_part(o, ORIGIN_NEW, "new");
    tell_part(o, ORIGIN_LEFT, "left");
}

/* What these weights began with in their turn, if they lie in their run's directory. */
static void add_earlier(cJSON *json, const char *file) {
    char dir[FILE_PATH_MAX];
    const char *slash = strrchr(file, '/');
    Run r;
    Err ignored;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - file) : 1, slash ? file : ".");
    if (!run_is_there(dir) || !run_read(&r, dir, false, &ignored)) return;
    const cJSON *init = run_init(&r);
    if (init) cJSON_AddItemToObject(json, "init", cJSON_Duplicate(init, true));
    run_free(&r);
}

cJSON *origin_describe(const Origin *o) {
    static const char *const keys[ORIGIN_PARTS] = {"new", "taken", "first_rows", "left"};
    char crc[ST_CRC];
    if (!o->params) return NULL;
    st_crc(&o->file, crc);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "file", o->from.path);
    cJSON_AddStringToObject(json, "crc32", crc);
    if (o->from.update >= 0) cJSON_AddNumberToObject(json, "update", (double)o->from.update);
    for (int i = 0; i < ORIGIN_PARTS; i++) cJSON_AddNumberToObject(json, keys[i], o->count[i]);
    const cJSON *config = o->from.run.config;
    if (config) cJSON_AddItemToObject(json, "config", cJSON_Duplicate(config, true));
    add_earlier(json, o->from.path);
    return json;
}

/* ---- taking ---- */

static bool take_rows(const Origin *o, const Param *p, real *w, const StTensor *t, Err *err) {
    const size_t there = t->bytes / dtype_size(t->dtype), n = there < p->n ? there : p->n;
    real *all = mem_alloc(there + 1, sizeof *all);
    const bool ok = st_reals(&o->file, t->name, all, there, err);
    memcpy(w, all, ok ? n * sizeof *w : 0);
    mem_free(all);
    return ok;
}

bool origin_take(const Origin *o, real *w, Err *err) {
    char bad[256];
    for (int i = 0; o->params && i < o->params->count; i++) {
        const Param *p = &o->params->list[i];
        const StTensor *t = params_tensor(&o->file, p->name);
        if (o->part[i] != ORIGIN_NEW && !take_rows(o, p, w + p->at, t, err)) return false;
    }
    return !o->params || finite_params(o->params, w, bad, sizeof bad) ||
           err_set(err, EX_DATAERR, "train.init: %s: %s", o->from.path, bad);
}
