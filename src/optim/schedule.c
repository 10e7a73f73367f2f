#include "optim/schedule.h"

#include <math.h>
#include <stddef.h>

/* The share of the way from the end of the warm-up to the horizon. */
static double progress(int64_t s, int64_t warmup, int64_t horizon) {
    if (s <= warmup) return 0;
    double x = horizon > warmup ? (double)(s - warmup) / (double)(horizon - warmup) : 1;
    return x < 1 ? x : 1;
}

static double constant(int64_t s, int64_t warmup, int64_t horizon) { return 1; }

static double linear(int64_t s, int64_t warmup, int64_t horizon) {
    return 1 - progress(s, warmup, horizon);
}

static double cosine(int64_t s, int64_t warmup, int64_t horizon) {
    return 0.5 * (1 + cos(3.14159265358979323846 * progress(s, warmup, horizon)));
}

static double rsqrt(int64_t s, int64_t warmup, int64_t horizon) {
    double w = warmup > 1 ? (double)warmup : 1;
    return sqrt(w / ((double)s > w ? (double)s : w));
}

typedef struct Schedule {
    const char *name;
    bool ends; /* whether it depends on the horizon */
    double (*factor)(int64_t s, int64_t warmup, int64_t horizon); /* after the warm-up */
} Schedule;

static const Schedule table[] = {
    {"constant", false, constant},
    {"linear", true, linear},
    {"cosine", true, cosine},
    {"rsqrt", false, rsqrt},
};
enum { SCHEDULES = sizeof table / sizeof *table };

const char *schedule_name(int schedule) {
    return schedule >= 0 && schedule < SCHEDULES ? table[schedule].name : NULL;
}

bool schedule_ends(int schedule) { return table[schedule].ends; }

double schedule_factor(int schedule, int64_t s, int64_t warmup, int64_t horizon) {
    double warm = warmup > 0 && s < warmup ? (double)s / (double)warmup : 1;
    return warm * table[schedule].factor(s, warmup, horizon);
}
