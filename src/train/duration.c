#include "train/duration.h"

#include <math.h>

#include "train/outline.h"
#include "train/run.h"

int64_t duration_updates(const Loader *f) {
    const TrainConf *t = &f->c->train;
    if (t->steps) return t->steps;
    if (t->petaflops <= 0) return t->epochs * loader_updates_per_epoch(f);
    const OutlineWork w = outline_work(f);
    const int64_t n = llround(t->petaflops * 1e15 / outline_update_flops(f, &w));
    return n > 0 ? n : 1;
}

bool duration_check(const RunDir *dir, const TrainConf *conf, int64_t made, int64_t horizon,
                    Err *err) {
    double seconds;
    int64_t told;
    if (made > horizon)
        return err_set(err, EX_CONFIG,
                       "%s has had %lld updates, more than the %lld that it is asked for. Ask for "
                       "no less than it had (train.steps, train.petaflops, train.epochs), or use "
                       "another --out",
                       dir->dir, (long long)made, (long long)horizon);
    /* The time was not up at the update before the last. */
    if (conf->minutes == 0 || !run_seconds(dir->metrics, made - 1, &seconds, &told, err))
        return conf->minutes == 0;
    return seconds < conf->minutes * 60 ||
           err_set(err, EX_CONFIG,
                   "%s has had more than the %g minutes that it is asked for. Ask for no less than "
                   "it had (train.minutes), or use another --out",
                   dir->dir, conf->minutes);
}
