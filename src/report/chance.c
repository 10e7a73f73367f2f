#include "report/chance.h"

#include <math.h>

#include "data/task.h"
#include "report/marks.h"

double chance_most(double p, double examples) { return p + 2 * sqrt(p * (100 - p) / examples); }

static const RunLine *measured(const Run *r) {
    if (run_done(r) && r->tested[RUN_BEST]) return &r->test[RUN_BEST];
    return r->val.n ? &r->val.line[r->val.n - 1] : NULL;
}

/* Of data with other parameters than the benchmark's it is not known which class is how common. */
static double guessed(const Task *t, const Run *r) {
    const bool known = t->chance > 0 && !marks_made_otherwise(t, r);
    return 100 * (known ? t->chance : 1. / t->classes);
}

int chance_runs(const Group *g) {
    const Task *t = task_find(g->task);
    int n = 0;
    if (!t || !t->classes) return 0;
    for (int i = 0; i < g->n; i++) {
        const RunLine *l = measured(g->run[i]);
        const double p = guessed(t, g->run[i]);
        n += l && 100 * l->value[RUN_ACCURACY] <= chance_most(p, l->value[RUN_COUNT]);
    }
    return n;
}
