#include "model/deal.h"

#include <math.h>
#include <string.h>

void deal_layout(Deal *d, Arena *a, int max_batch, int lanes, int ranks) {
    const size_t B = (size_t)max_batch, L = (size_t)lanes;
    *d = (Deal){.lanes = lanes, .ranks = ranks};
    d->work = arena_take(a, B, sizeof *d->work);
    d->longest_first = arena_ints(a, B);
    d->order = arena_ints(a, B);
    d->lane_of = arena_ints(a, B);
    d->rank_of = arena_ints(a, B);
    d->lane_start = arena_ints(a, L + 1);
    d->leaf = arena_ints(a, L);
    d->sorted = arena_ints(a, L);
    d->aside = arena_ints(a, L);
    d->load = arena_take(a, L, sizeof *d->load);
    d->cuts = arena_ints(a, (size_t)ranks + 1);
    d->pace = arena_take(a, (size_t)ranks, sizeof *d->pace);
    d->seconds = arena_take(a, (size_t)ranks, sizeof *d->seconds);
}

/* Into `sorted`, 0..n-1 by falling x, the lower first on ties. */
static void sort_falling(int *sorted, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && x[sorted[j - 1]] < x[i]; j--) sorted[j] = sorted[j - 1];
        sorted[j] = i;
    }
}

void deal_sort(Deal *d, int B) { sort_falling(d->longest_first, d->work, B); }

/* Each sample goes, in that order, to the lane with the least to do (the lower on ties). */
static void fill_lanes(Deal *d, int B, int lanes) {
    memset(d->load, 0, (size_t)lanes * sizeof *d->load);
    for (int i = 0; i < B; i++) {
        const int sample = d->longest_first[i];
        int best = 0;
        for (int l = 1; l < lanes; l++)
            if (d->load[l] < d->load[best]) best = l;
        d->load[best] += d->work[sample];
        d->lane_of[sample] = best;
    }
}

/* ---- where lanes are in the tree, of which ranks have runs ---- */

/* Of n lanes, heaviest first: into `right` whether each goes to the right, where `room` of them
 * have to be. Both sides should have as much to do: a lane goes where more is missing for each that
 * has to come. Returns how much more one side has than half, as a share of it. */
static double part_lanes(const double *load, const int *sorted, int n, int room, int *right) {
    double all = 0;
    for (int i = 0; i < n; i++) all += load[sorted[i]];
    double missing[2] = {all / 2, all / 2};
    int to_come[2] = {n - room, room};
    for (int i = 0; i < n; i++) {
        const bool to =
            !to_come[0] || (to_come[1] && missing[1] / to_come[1] > missing[0] / to_come[0]);
        missing[to] -= load[sorted[i]];
        to_come[to]--;
        right[i] = to;
    }
    return all > 0 ? fabs(missing[0]) / (all / 2) : 0;
}

/* The most lanes that one side of a tree of n has whole. */
static int whole_side(int n) {
    int whole = 1;
    while (2 * whole < n) whole *= 2;
    return whole;
}

/* Gives n lanes, heaviest first, the leaves from `first` on: so that both sides of the tree have as
 * much to do, to 1 %, or else both halves of the run, which come to more sums; and so on in them.
 */
static void place_lanes(Deal *d, int *sorted, int first, int n) {
    if (n == 1) {
        d->leaf[sorted[0]] = first;
        return;
    }
    int left = whole_side(n), *right = d->aside;
    if (part_lanes(d->load, sorted, n, n - left, right) > 0.01) {
        left = n / 2;
        part_lanes(d->load, sorted, n, n - left, right);
    }
    /* The left ones move up in `sorted`, the right ones wait in `aside`: both keep their order. */
    int lefts = 0, rights = 0;
    for (int i = 0; i < n; i++) {
        const int lane = sorted[i];
        if (right[i])
            right[rights++] = lane;
        else
            sorted[lefts++] = lane;
    }
    memcpy(sorted + left, right, (size_t)rights * sizeof *right);
    place_lanes(d, sorted, first, left);
    place_lanes(d, sorted + left, first + left, n - left);
}

static void spread_lanes(Deal *d, int B, int lanes) {
    sort_falling(d->sorted, d->load, lanes);
    place_lanes(d, d->sorted, 0, lanes);
    for (int i = 0; i < B; i++) d->lane_of[i] = d->leaf[d->lane_of[i]];
}

/* How many sums the lanes from a cut on come to: one where they are a side of the tree. */
static int sums_from(int cut, int lanes) {
    return cut < lanes ? __builtin_popcount((unsigned)(2 * whole_side(lanes) - cut)) : 0;
}

/* The pace of those of whom it is known; 1 if it is of none. */
static double mean_pace(const Deal *d) {
    double sum = 0;
    int known = 0;
    for (int r = 0; r < d->ranks; r++) sum += d->pace[r], known += d->pace[r] > 0;
    return known ? sum / known : 1;
}

static double pace_of(const Deal *d, int rank, double mean) {
    return d->pace[rank] > 0 ? d->pace[rank] : mean;
}

/* Seconds that a sum takes; before they are known 1 % of the mean rank's. */
static double seconds_of_sum(const Deal *d, double mean_rank) {
    return d->pace[0] > 0 && d->sum_seconds > 0 ? d->sum_seconds : mean_rank / 100;
}

/* Where rank r begins: so that both sides of the cut are done at about the same time, where
 * `target` of the work is before it, and that few sums have to be sent. */
static int best_cut(const Deal *d, int r, int lanes, double target, double sum_seconds) {
    const double mean = mean_pace(d), left = pace_of(d, r - 1, mean), right = pace_of(d, r, mean);
    double before = 0, least = INFINITY;
    int best = 0;
    for (int cut = 1; cut <= lanes; cut++) {
        before += d->load[cut - 1];
        const double late = before > target ? (before - target) / left : (target - before) / right,
                     cost = late + sum_seconds * sums_from(cut, lanes);
        if (cut >= d->cuts[r - 1] && cost < least) best = cut, least = cost;
    }
    return best;
}

static void cut_lanes(Deal *d, int B, int lanes) {
    const double mean = mean_pace(d);
    double all = 0, together = 0, target = 0;
    memset(d->load, 0, (size_t)lanes * sizeof *d->load);
    for (int i = 0; i < B; i++) {
        d->load[d->lane_of[i]] += d->work[i];
        all += d->work[i];
    }
    for (int r = 0; r < d->ranks; r++) together += pace_of(d, r, mean);
    d->cuts[0] = 0;
    for (int r = 1; r < d->ranks; r++) {
        target += all * (pace_of(d, r - 1, mean) / together);
        d->cuts[r] = best_cut(d, r, lanes, target, seconds_of_sum(d, all / together));
    }
    d->cuts[d->ranks] = lanes;
    for (int i = 0; i < B; i++)
        for (int r = 0; r < d->ranks; r++)
            if (d->lane_of[i] >= d->cuts[r]) d->rank_of[i] = r;
}

/* `order` lists samples lane by lane. */
static void list_lanes(Deal *d, int B, int lanes) {
    int at = 0;
    for (int l = 0; l < lanes; l++) {
        d->lane_start[l] = at;
        for (int i = 0; i < B; i++)
            if (d->lane_of[i] == l) d->order[at++] = i;
    }
    d->lane_start[lanes] = at;
}

/* Returns the number of lanes. */
int deal_lanes(Deal *d, int B) {
    REQUIRE(B > 0, "a batch of %d", B);
    const int lanes = d->lanes < B ? d->lanes : B;
    deal_sort(d, B);
    fill_lanes(d, B, lanes);
    spread_lanes(d, B, lanes);
    if (d->ranks > 1) cut_lanes(d, B, lanes);
    list_lanes(d, B, lanes);
    return lanes;
}

/* Means over the last few batches. Who has nothing to do comes slowly nearer to the others, until
 * it is tried again. */
void deal_learn(Deal *d, int B) {
    enum { BATCHES = 8, IDLE = 64 };
    const double mean = mean_pace(d);
    for (int r = 0; r < d->ranks && d->learns; r++) {
        double work = 0, *pace = &d->pace[r];
        for (int i = 0; i < B; i++) work += d->rank_of[i] == r ? d->work[i] : 0;
        const double now = work > 0 && d->seconds[r] > 0 ? work / d->seconds[r] : 0;
        if (*pace == 0)
            *pace = now;
        else
            *pace += now > 0 ? (now - *pace) / BATCHES : (mean - *pace) / IDLE;
    }
    d->learns = true;
}
