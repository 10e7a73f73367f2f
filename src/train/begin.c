#include "train/begin.h"

#include "data/dataset.h"
#include "io/safetensors.h"
#include "train/loader.h"
#include "train/origin.h"
#include "train/state.h"

bool begin_memory(const Config *c, Err *err) {
    const Params *p = &c->model.params;
    return mem_fits(state_bytes(p, c->train.ema > 0) + p->total * sizeof(real), err);
}

/* Data of which no example could be read whole are not what such a config was written for. */
static bool check_lengths(const Config *c, Err *err) {
    const int most = c->model.conf.max_length;
    char way[512];
    if (most >= c->task->shortest || dataset_is_whole(c->data_dir)) return true;
    task_way(c->task, c->data_dir, most, way, sizeof way);
    return err_set(err, EX_NOINPUT, "%s: no prepared data, and none are made: %s", c->data_dir,
                   way);
}

bool begin_data(const Config *c, Err *err) {
    return task_may_prepare(c->task, c->data_dir, err) && check_lengths(c, err);
}

int64_t begin_examples(const Config *c) {
    char path[FILE_PATH_MAX];
    StFile f;
    Err ignored;
    if (!dataset_path(path, c->data_dir, SPLIT_TRAIN, &ignored) || !file_exists(path) ||
        !st_open(&f, path, &ignored))
        return 0;
    const StTensor *labels = st_find(&f, "labels");
    const int64_t n = labels && labels->ndim == 1 ? labels->shape[0] : 0;
    st_close(&f);
    return n;
}

static bool check_examples(const Config *c, Err *err) {
    char path[FILE_PATH_MAX];
    const int64_t n = begin_examples(c);
    return n == 0 || (dataset_path(path, c->data_dir, SPLIT_TRAIN, err) &&
                      loader_has_enough(c, path, n - loader_held(c, n), err));
}

static bool check_init(const Config *c, Err *err) {
    Origin o;
    if (!origin_open(&o, c, err)) return false;
    origin_close(&o);
    return true;
}

bool begin_check(const Config *c, Err *err) {
    return begin_memory(c, err) && begin_data(c, err) && check_examples(c, err) &&
           check_init(c, err);
}
