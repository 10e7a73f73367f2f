#include "model/deal.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

void deal_layout(Deal *d, Arena *a, int max_batch, int lanes, int ranks) {
    const size_t B = (size_t)max_batch, L = (size_t)lanes;
    d->lanes = lanes;
    d->ranks = ranks;
    d->longest_first = arena_ints(a, B);
    d->order = arena_ints(a, B);
    d->lane_of = arena_ints(a, B);
    d->rank_of = arena_ints(a, B);
    d->lane_start = arena_ints(a, L + 1);
    d->leaf = arena_ints(a, L);
    d->turn = arena_ints(a, L);
    d->load = arena_take(a, L, sizeof *d->load);
    d->cuts = arena_ints(a, (size_t)ranks + 1);
}

static double work_of(const Sample *s) { return (double)s->length[0] + s->length[1]; }

/* Samples by falling length, the earlier first on ties. */
void deal_sort(Deal *d, const Sample *samples, int B) {
    int *sorted = d->longest_first;
    for (int i = 0; i < B; i++) {
        int j = i;
        for (; j > 0 && work_of(&samples[sorted[j - 1]]) < work_of(&samples[i]); j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = i;
    }
}

/* Each goes, in that order, to the lane with the least to do (the lower on ties). */
static void fill_lanes(Deal *d, const Sample *samples, int B, int lanes) {
    memset(d->load, 0, (size_t)lanes * sizeof *d->load);
    for (int i = 0; i < B; i++) {
        const int sample = d->longest_first[i];
        int best = 0;
        for (int l = 1; l < lanes; l++)
            if (d->load[l] < d->load[best]) best = l;
        d->load[best] += work_of(&samples[sample]);
        d->lane_of[sample] = best;
    }
}

/* Where a lane is in the tree, of which ranks have runs: the heaviest come first to the leaves by
 * the fractions of the multiples of the golden ratio, of which any run has its share (Knuth, The
 * Art of Computer Programming 3, 6.4). */
static uint32_t golden(int leaf) { return (uint32_t)leaf * 2654435769u; }

static void spread_lanes(Deal *d, int B, int lanes) {
    for (int leaf = 0; leaf < lanes; leaf++) {
        int before = 0;
        for (int i = 0; i < lanes; i++) before += golden(i) < golden(leaf);
        d->turn[before] = leaf;
    }
    for (int l = 0; l < lanes; l++) {
        int before = 0;
        for (int i = 0; i < lanes; i++)
            before += d->load[i] > d->load[l] || (d->load[i] == d->load[l] && i < l);
        d->leaf[l] = d->turn[before];
    }
    for (int i = 0; i < B; i++) d->lane_of[i] = d->leaf[d->lane_of[i]];
}

/* How much is whole on both sides of a cut: the power of two in it. */
static int wholeness(int cut) { return cut & -cut; }

/* Between ranks where each has about as much to do; of cuts that are as good, to 2 % of that, where
 * the fewest sums have to be sent. */
static void cut_lanes(Deal *d, const Sample *samples, int B, int lanes) {
    double all = 0;
    memset(d->load, 0, (size_t)lanes * sizeof *d->load);
    for (int i = 0; i < B; i++) {
        d->load[d->lane_of[i]] += work_of(&samples[i]);
        all += work_of(&samples[i]);
    }
    d->cuts[0] = 0;
    for (int r = 1; r < d->ranks; r++) {
        const double share = all / d->ranks, slack = share / 50;
        double before = 0, least = INFINITY;
        for (int cut = 1; cut <= lanes; cut++) {
            before += d->load[cut - 1];
            const double off = fabs(before - r * share);
            if (cut < d->cuts[r - 1]) continue;
            const bool both = off < slack && least < slack;
            if (both ? wholeness(cut) > wholeness(d->cuts[r]) : off < least)
                d->cuts[r] = cut, least = off;
        }
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
int deal_lanes(Deal *d, const Sample *samples, int B) {
    const int lanes = d->lanes < B ? d->lanes : B;
    deal_sort(d, samples, B);
    fill_lanes(d, samples, B, lanes);
    spread_lanes(d, B, lanes);
    if (d->ranks > 1) cut_lanes(d, samples, B, lanes);
    list_lanes(d, B, lanes);
    return lanes;
}
