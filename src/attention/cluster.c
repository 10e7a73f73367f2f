#include "attention/cluster.h"

#include <stdint.h>
#include <string.h>

#include "ops/vec.h"

#ifdef REAL_DOUBLE
typedef uint64_t Bits;
#else
typedef uint32_t Bits;
#endif

enum { BITS = 8 * sizeof(Bits), DIGIT = 8, BUCKETS = 1 << DIGIT };

void cluster_layout(ClusterScratch *s, Arena *a, int N) {
    for (int i = 0; i < 2; i++) { /* rank_sort reads whole vectors, and uses what is there */
        s->keys[i] = arena_take(a, (size_t)(N + VEC), sizeof(Bits));
        s->items[i] = arena_ints(a, (size_t)N);
    }
    s->count = arena_ints(a, BUCKETS);
}

void cluster_sort(int *order, int *start, const int *cluster, int N, int C) {
    memset(start, 0, ((size_t)C + 1) * sizeof *start);
    for (int i = 0; i < N; i++) start[cluster[i] + 1]++;
    for (int c = 0; c < C; c++) start[c + 1] += start[c];
    for (int i = 0; i < N; i++) order[start[cluster[i]]++] = i;
    for (int c = C; c > 0; c--) start[c] = start[c - 1];
    start[0] = 0;
}

/* An unsigned key that grows as the score falls, so that an ascending stable sort lists the best
 * first and equal scores by index. */
static inline Bits descending_key(real score) {
    const Bits sign = (Bits)1 << (BITS - 1);
    Bits b;
    score += 0; /* -0 becomes +0 */
    memcpy(&b, &score, sizeof b);
    b = b & sign ? b : ~(b | sign);
    return score == score ? b : ~(Bits)0;
}

/* Sorts n (key, item) pairs in slot 0 by key, stable: least significant digit first. */
static void radix_sort(const ClusterScratch *s, int n) {
    Bits *from = s->keys[0], *to = s->keys[1];
    int *item_from = s->items[0], *item_to = s->items[1];
    for (int shift = 0; shift < BITS; shift += DIGIT) {
        int *count = s->count, at = 0;
        memset(count, 0, BUCKETS * sizeof *count);
        for (int i = 0; i < n; i++) count[from[i] >> shift & (BUCKETS - 1)]++;
        for (int b = 0; b < BUCKETS; b++) {
            int c = count[b];
            count[b] = at;
            at += c;
        }
        for (int i = 0; i < n; i++) {
            int to_i = count[from[i] >> shift & (BUCKETS - 1)]++;
            to[to_i] = from[i];
            item_to[to_i] = item_from[i];
        }
        Bits *k = from;
        from = to, to = k;
        int *t = item_from;
        item_from = item_to, item_to = t;
    }
}

/* Few pairs are sorted by counting, for each, those that go before it: fewer vector steps than a
 * radix sort spends on its buckets. */
enum { FEW = 256 };

/* A vector of keys at once: of keys before theirs, equal ones count too. */
static void rank_sort(const ClusterScratch *s, int n) {
    const Bits *keys = s->keys[0];
    for (int i0 = 0; i0 < n; i0 += VEC) {
        const int end = i0 + VEC < n ? i0 + VEC : n;
        VecBits key, place = {0}, rank = {0};
        memcpy(&key, keys + i0, sizeof key);
        for (int i = 0; i < VEC; i++) place[i] = (Bits)(i0 + i);
        for (int j = 0; j < i0; j++) rank -= (VecBits)(keys[j] <= key);
        for (int j = i0; j < end; j++)
            rank -=
                (VecBits)(keys[j] < key) | ((VecBits)(keys[j] == key) & (VecBits)((Bits)j < place));
        for (int j = end; j < n; j++) rank -= (VecBits)(keys[j] < key);
        for (int i = i0; i < end; i++) s->items[1][rank[i - i0]] = s->items[0][i];
    }
}

/* The items of the n pairs in slot 0, best first. */
static const int *sort(const ClusterScratch *s, int n) {
    if (n > FEW) {
        radix_sort(s, n);
        return s->items[0];
    }
    rank_sort(s, n);
    return s->items[1];
}

static int count_up_to(const Bits *keys, int n, Bits limit) {
    Bits count = 0;
#pragma omp simd reduction(+ : count)
    for (int i = 0; i < n; i++) count += keys[i] <= limit;
    return (int)count;
}

/* A key that k keys, or few more, do not exceed: by halving the range that they are in. */
static Bits limit_of(const Bits *keys, int n, int k) {
    const int enough = k + k / 8;
    Bits least = ~(Bits)0, limit = 0;
#pragma omp simd reduction(min : least) reduction(max : limit)
    for (int i = 0; i < n; i++) {
        least = keys[i] < least ? keys[i] : least;
        limit = keys[i] > limit ? keys[i] : limit;
    }
    for (int count = n; least < limit && count > enough;) {
        const Bits middle = least + (limit - least) / 2;
        const int below = count_up_to(keys, n, middle);
        if (below < k)
            least = middle + 1;
        else
            limit = middle, count = below;
    }
    return limit;
}

/* Fills slot 0 with pairs among which are the k best, and few others: what is left to sort. */
static int select_best(const ClusterScratch *s, const real *score, int n, int k) {
    Bits *keys = s->keys[1], *kept = s->keys[0];
    int m = 0;
#pragma omp simd
    for (int i = 0; i < n; i++) keys[i] = descending_key(score[i]);
    const Bits limit = limit_of(keys, n, k);
    for (int i = 0; i < n; i++) {
        kept[m] = keys[i];
        s->items[0][m] = i;
        m += keys[i] <= limit;
    }
    return m;
}

void cluster_order(int *list, const real *score, const ClusterScratch *s, int N) {
    Bits *keys = s->keys[0];
#pragma omp simd
    for (int i = 0; i < N; i++) keys[i] = descending_key(score[i]);
    for (int i = 0; i < N; i++) s->items[0][i] = i;
    memcpy(list, sort(s, N), (size_t)N * sizeof *list);
}

int cluster_top_k(int *list, const real *affinity, const ClusterScratch *s, int N, int k) {
    const int take = k < N ? k : N, *best = sort(s, select_best(s, affinity, N, take));
    memcpy(list, best, (size_t)take * sizeof *list);
    for (int i = take; i < k; i++) list[i] = -1;
    return take;
}

/* The cluster with room that scores best; the lower index on ties; -1 if all are full. */
static int best_with_room(const real *score, size_t ld, const int *size, int C, int k) {
    int best = -1;
    Bits best_key = 0;
    for (int c = 0; c < C; c++) {
        if (size[c] >= k) continue;
        Bits key = descending_key(score[(size_t)c * ld]);
        if (best < 0 || key < best_key) best = c, best_key = key;
    }
    return best;
}

void cluster_sa_top_k(int *list, int *size, const real *affinity, int stride,
                      const ClusterScratch *s, int N, int C, int k) {
    const size_t ld = (size_t)stride;
    Bits *keys = s->keys[0];
    for (int n = 0; n < N; n++) keys[n] = ~(Bits)0, s->items[0][n] = n;
    for (int c = 0; c < C; c++)
#pragma omp simd
        for (int n = 0; n < N; n++) {
            const Bits key = descending_key(affinity[(size_t)c * ld + (size_t)n]);
            keys[n] = key < keys[n] ? key : keys[n];
        }
    const int *order = sort(s, N);
    memset(size, 0, (size_t)C * sizeof *size);
    for (size_t i = 0; i < (size_t)C * (size_t)k; i++) list[i] = -1;
    for (int i = 0; i < N; i++) {
        int c = best_with_room(affinity + order[i], ld, size, C, k);
        if (c < 0) return; /* C k < N: the rest is in no cluster */
        list[(size_t)c * (size_t)k + (size_t)size[c]++] = order[i];
    }
}
