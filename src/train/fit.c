#include "train/fit.h"

#include <string.h>

#include "core/log.h"
#include "io/json.h"
#include "train/override.h"

static const char *trained_type(const Source *from) {
    const char *type = json_string(from->run.config, "model.attention.type");
    return type ? type : "another";
}

static bool other_mechanism(const Config *now, const Source *from) {
    return strcmp(trained_type(from), now->model.mech->name) != 0;
}

/* What it was trained under, with the keys of today: one of an older version lacks some. */
static cJSON *as_now(const Source *from) {
    cJSON *theirs = cJSON_Duplicate(from->run.config, true);
    if (theirs) config_complete(theirs);
    return theirs;
}

void fit_changes(const Config *now, const Source *from, char *list, size_t size) {
    static const char *const sections[] = {"model", "data"};
    cJSON *theirs = as_now(from);
    if (other_mechanism(now, from)) override_drop_mechanism(json_at(theirs, "model.attention"));
    list[0] = '\0';
    for (int i = 0; i < 2; i++) {
        const cJSON *was = json_at(theirs, sections[i]), *is = json_at(now->resolved, sections[i]);
        if (was && is) config_differences(was, is, sections[i], list, size);
    }
    cJSON_Delete(theirs);
}

/* Whether the attention is another one: of another mechanism, or with another key. */
static bool swaps(const Config *now, const Source *from) {
    cJSON *theirs = as_now(from);
    const bool same = cJSON_Compare(json_at(now->resolved, "model.attention"),
                                    json_at(theirs, "model.attention"), true);
    cJSON_Delete(theirs);
    return !same;
}

/* The name that a tensor of attention has in its block, without "attn."; NULL: it is none of a
 * block of the model. */
static const char *in_attention(const Model *m, const char *name) {
    static const char attn[] = "attn.";
    const char *rest;
    const int block = params_block(name, &rest);
    if (block < 0 || block >= m->conf.depth || strncmp(rest, attn, strlen(attn)) != 0) return NULL;
    return rest + strlen(attn);
}

/* Whether it is a mechanism's own: all but the projections, which are the block's. */
static bool is_own(const Model *m, const char *name) {
    const char *in = in_attention(m, name);
    for (int i = 0; in && i < ATTN_PROJECTIONS; i++) {
        const size_t n = strlen(attn_projection_names[i]);
        if (!strncmp(in, attn_projection_names[i], n) && in[n] == '.') return false;
    }
    return in != NULL;
}

/* ---- what does not fit ---- */

/* Nothing was changed: the file, or what says its sizes, is another's. */
static bool of_another(const Config *now, const Source *from, const StFile *f, const char *what,
                       Err *err) {
    char sizes[64] = "";
    if (now->task->vocab == 0)
        snprintf(sizes, sizeof sizes, ", of %d ids and %d classes", now->model.task.vocab,
                 now->model.task.classes);
    if (sizes[0] && !st_meta(f, FACTS_META))
        return err_set(err, EX_DATAERR,
                       "%s: %s: the file belongs to another model, or to other data than those in "
                       "%s%s",
                       from->path, what, now->data_dir, sizes);
    return err_set(err, EX_DATAERR, "%s: %s: the file belongs to another model%s%s", from->path,
                   what, sizes[0] ? " than its metadata \"" FACTS_META "\" says" : "", sizes);
}

static bool does_not_fit(const Config *now, const Source *from, const StFile *f, const char *what,
                         Err *err) {
    char list[512];
    const char *task = json_string(from->run.config, "task");
    if (task && strcmp(task, now->task->name) != 0)
        return err_set(err, EX_CONFIG, "%s: %s. It was trained on task \"%s\", not \"%s\"",
                       from->path, what, task, now->task->name);
    fit_changes(now, from, list, sizeof list);
    if (!list[0]) return of_another(now, from, f, what, err);
    return err_set(err, EX_CONFIG, "%s: %s. To fit these weights, leave %s as trained: %s",
                   from->path, what, strstr(list, "), ") ? "one or more of these keys" : "this key",
                   list);
}

static bool is_missing(const Config *now, const Source *from, const StFile *f, const Param *p,
                       Err *err) {
    char what[512], shape[ST_DESCRIBED];
    const Model *m = &now->model;
    st_describe(shape, DT_F32, p->ndim, p->shape);
    if (is_own(m, p->name) && other_mechanism(now, from))
        return err_set(err, EX_CONFIG,
                       "%s: tensor '%s' (%s) is not in it: it was trained with %s attention, which "
                       "has no such weights; %s attention must be trained: cast_train CONFIG "
                       "model.attention.type=%s",
                       from->path, p->name, shape, trained_type(from), m->mech->name,
                       m->mech->name);
    snprintf(what, sizeof what, "tensor '%s' (%s) is missing", p->name, shape);
    return does_not_fit(now, from, f, what, err);
}

static bool check_param(const Config *now, const Source *from, const StFile *f, const Param *p,
                        bool swapped, Err *err) {
    const StTensor *x = st_find(f, p->name);
    if (params_lacks(p, f) && swapped) return true;
    if (!x) return is_missing(now, from, f, p, err);
    const Dtype dtype = x->dtype == DT_F64 ? DT_F64 : DT_F32;
    if (st_want(f, p->name, dtype, p->ndim, p->shape, err)) return true;
    char there[ST_DESCRIBED], wanted[ST_DESCRIBED], what[2 * ST_DESCRIBED + 128];
    st_describe(there, x->dtype, x->ndim, x->shape);
    st_describe(wanted, dtype, p->ndim, p->shape);
    snprintf(what, sizeof what, "tensor '%s' is %s, but this model takes %s", p->name, there,
             wanted);
    return does_not_fit(now, from, f, what, err);
}

/* Projections are what mechanisms have in common. */
static bool check_projections(const Config *now, const Source *from, Err *err) {
    const AttnMech *is = now->model.mech, *was = attn_find(trained_type(from));
    for (int i = 0; was && i < ATTN_PROJECTIONS; i++) {
        if (!((is->projections ^ was->projections) & ATTN_HAS(i))) continue;
        const bool has = was->projections & ATTN_HAS(i);
        return err_set(err, EX_CONFIG,
                       "%s: it was trained with %s attention, and %s attention cannot take its "
                       "place: %s has no projection '%s'. %s attention must be trained: cast_train "
                       "CONFIG model.attention.type=%s",
                       from->path, was->name, is->name, has ? is->name : was->name,
                       attn_projection_names[i], is->name, is->name);
    }
    return true;
}

/* What was trained, with the data where they are now. */
static bool open_was(Config *was, const Config *now, const Source *from, const StFile *f,
                     Err *err) {
    cJSON *config = cJSON_Duplicate(from->run.config, true), *data = json_at(config, "data");
    cJSON_DeleteItemFromObjectCaseSensitive(data, "dir");
    cJSON_AddStringToObject(data, "dir", now->data_dir);
    const bool ok = config_open(was, config, from->path, f, NULL, 0, err);
    cJSON_Delete(config);
    if (!ok) config_free(was);
    return ok;
}

/* What the mechanism of the weights trained of its own is there still, or can be left behind. */
static bool check_left(const Config *now, const Source *from, const StFile *f, Err *err) {
    Config was;
    if (!open_was(&was, now, from, f, err)) return false;
    const Param *lost = NULL;
    for (int i = 0; i < was.model.params.count; i++) {
        const Param *p = &was.model.params.list[i];
        const bool kept = !is_own(&now->model, p->name) || !(p->flags & PARAM_TRAINED) ||
                          p->flags & PARAM_APART || params_find(&now->model.params, p->name);
        if (!kept && !lost) lost = p;
    }
    if (lost)
        err_set(err, EX_CONFIG,
                "%s: it was trained with %s attention, and does not work without its tensor '%s'; "
                "%s attention must be trained: cast_train CONFIG model.attention.type=%s",
                from->path, trained_type(from), lost->name, now->model.mech->name,
                now->model.mech->name);
    config_free(&was);
    return !lost;
}

/* Tensors that are no parameters: a mechanism's own are left behind, others are of another model.
 */
static bool check_rest(const Config *now, const Source *from, const StFile *f, bool swapped,
                       Err *err) {
    const Model *m = &now->model;
    char what[512];
    for (int i = 0; i < f->ntensors; i++) {
        const char *name = f->tensors[i].name;
        if (params_is_state(name) || params_find(&m->params, name) || is_own(m, name)) continue;
        snprintf(what, sizeof what, "tensor '%.300s' has no place in this model", name);
        return does_not_fit(now, from, f, what, err);
    }
    return !swapped || check_left(now, from, f, err);
}

bool fit_check(const Config *now, const Source *from, const StFile *f, Err *err) {
    const bool swapped = swaps(now, from);
    if (!check_projections(now, from, err)) return false;
    for (int i = 0; i < now->model.params.count; i++)
        if (!check_param(now, from, f, &now->model.params.list[i], swapped, err)) return false;
    return check_rest(now, from, f, swapped, err);
}

/* ---- what was swapped ---- */

/* Adds a name in its block, once. */
static void add_name(char *list, size_t size, const char *name) {
    if (!strstr(list, name)) format_add(list, size, "%s%s", list[0] ? ", " : "", name);
}

void fit_swapped(FitSwap *s, const Config *now, const StFile *f) {
    const Model *m = &now->model;
    *s = (FitSwap){{0}, {0}};
    for (int i = 0; i < m->params.count; i++) {
        const Param *p = &m->params.list[i];
        if (params_lacks(p, f)) add_name(s->drawn, sizeof s->drawn, in_attention(m, p->name));
    }
    for (int i = 0; i < f->ntensors; i++) {
        const char *name = f->tensors[i].name;
        if (is_own(m, name) && !params_find(&m->params, name))
            add_name(s->left, sizeof s->left, in_attention(m, name));
    }
}
