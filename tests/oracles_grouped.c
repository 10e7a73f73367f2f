/* Mechanisms whose tokens attend in groups that each head chooses: clustered and i-clustered, lsh,
 * smyrf. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracles.h"

#define TOO_CLOSE 1e-4 /* of the largest score, in float */

static int *ints(int n) { return oracle_must(calloc((size_t)n + 1, sizeof(int))); }

/* own (N), of so many groups, is held against what the mechanism says, or is that. */
static void settle(const Sublayer *s, const int *said, int *own, int groups, const char *where) {
    if (!said) fail_msg("%s reports no groups", s->mech->name);
    for (int n = 0; n < s->N; n++) {
        if (said[n] < 0 || said[n] >= groups)
            fail_msg("%s, N %d, %s: token %d is in group %d of %d", s->mech->name, s->N, where, n,
                     said[n], groups);
        if (sizeof(real) == 4) own[n] = said[n];
        if (own[n] != said[n])
            fail_msg("%s, N %d, %s: token %d is in group %d, and should be in %d", s->mech->name,
                     s->N, where, n, said[n], own[n]);
    }
}

/* Each one's place in ascending order, the lower index first where they are equal. */
static void ranks(int *rank, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        rank[i] = 0;
        for (int j = 0; j < n; j++) rank[i] += x[j] < x[i] || (x[j] == x[i] && j < i);
    }
}

/* ---- clustered, i-clustered: K-means on bits ---- */

typedef struct Hashes {
    int N, C, bits;
    bool *query, *centre; /* (N,bits), (C,bits) */
    int *of, *far;        /* (N) the cluster of a query, and how far its centroid was then */
} Hashes;

static Hashes hashes_open(const Sublayer *s, const Operands *o, int head, int C, int *of) {
    const int bits = sublayer_key(s, "bits"), e = o->e;
    const bool bias = sublayer_key(s, "hash_bias");
    Hashes h = {.N = o->N, .C = C, .bits = bits, .of = of, .far = ints(o->N)};
    h.query = oracle_must(calloc((size_t)(o->N * bits), sizeof *h.query));
    h.centre = oracle_must(calloc((size_t)(C * bits), sizeof *h.centre));
    for (int n = 0; n < o->N; n++)
        for (int b = 0; b < bits; b++) {
            const real *plane = sublayer_own(s, 0) + (head * bits + b) * (e + 1);
            double side = bias ? -(double)plane[e] : 0;
            for (int i = 0; i < e; i++) side += o->q[n * o->d + head * e + i] * (double)plane[i];
            h.query[n * bits + b] = side > 0;
        }
    for (int c = 0; c < C; c++)
        memcpy(h.centre + c * bits, h.query + c * o->N / C * bits, (size_t)bits * sizeof(bool));
    return h;
}

static void assign(Hashes *h) {
    for (int n = 0; n < h->N; n++)
        for (int c = 0; c < h->C; c++) {
            int off = 0;
            for (int b = 0; b < h->bits; b++)
                off += h->query[n * h->bits + b] != h->centre[c * h->bits + b];
            if (c == 0 || off < h->far[n]) h->of[n] = c, h->far[n] = off;
        }
}

/* The farthest query that was not taken, and takes it. */
static int take_farthest(const Hashes *h, bool *taken) {
    int best = -1;
    for (int n = 0; n < h->N; n++)
        if (!taken[n] && (best < 0 || h->far[n] > h->far[best])) best = n;
    taken[best] = true;
    return best;
}

/* New centroids. False: they are the old ones, and so would be all that follow. */
static bool update(Hashes *h) {
    const size_t size = (size_t)(h->C * h->bits) * sizeof *h->centre;
    bool *taken = oracle_must(calloc((size_t)h->N, sizeof *taken)),
         *old = memcpy(oracle_must(malloc(size)), h->centre, size);
    for (int c = 0; c < h->C; c++) {
        int members = 0;
        for (int n = 0; n < h->N; n++) members += h->of[n] == c;
        const int from = members ? -1 : take_farthest(h, taken);
        for (int b = 0; b < h->bits; b++) {
            int ones = 0;
            for (int n = 0; n < h->N; n++) ones += h->of[n] == c && h->query[n * h->bits + b];
            h->centre[c * h->bits + b] =
                members ? 2 * ones > members : h->query[from * h->bits + b];
        }
    }
    const bool moved = memcmp(old, h->centre, size) != 0;
    free(taken), free(old);
    return moved;
}

static void find_clusters(const Sublayer *s, const Operands *o, int head, int C, int *of) {
    const int iterations = sublayer_key(s, "iterations");
    Hashes h = hashes_open(s, o, head, C, of);
    for (int i = 1; i <= iterations; i++) {
        assign(&h);
        if (i < iterations && !update(&h)) break;
    }
    free(h.query), free(h.centre), free(h.far);
}

/* Row weights (N) of query n: a, but of the keys `top` its own, which share what a gives them. */
static void own_weights(const Operands *o, double *p, const double *a, const bool *top, int n,
                        int head) {
    double share = 0;
    for (int j = 0; j < o->N; j++) {
        p[j] = top[j] ? operands_score(o, n, j, head) : -INFINITY;
        if (top[j]) share += a[j];
    }
    oracle_softmax(p, o->N);
    for (int j = 0; j < o->N; j++) p[j] = top[j] ? share * p[j] : a[j];
}

/* The top keys by their score. False: the next one is too close. */
static bool choose_top(bool *top, const double *score, int N, int k) {
    double *minus = oracle_doubles((size_t)N), least = INFINITY, next = -INFINITY, largest = 0;
    int *rank = ints(N);
    for (int j = 0; j < N; j++) minus[j] = -score[j];
    ranks(rank, minus, N);
    for (int j = 0; j < N; j++) {
        top[j] = rank[j] < k;
        if (rank[j] == k - 1) least = score[j];
        if (rank[j] == k) next = score[j];
        largest = fmax(largest, fabs(score[j]));
    }
    free(minus), free(rank);
    return sizeof(real) == 8 || least - next > TOO_CLOSE * largest;
}

/* What the queries of a cluster get. top_k 0: the centroid's weights are all. */
static void attend_cluster(const Operands *o, double *R, int head, const int *of, int c,
                           int top_k) {
    const int N = o->N, e = o->e, at = head * e;
    double *centre = oracle_doubles((size_t)e), *a = oracle_doubles((size_t)N);
    bool *top = oracle_must(calloc((size_t)N, sizeof *top));
    int members = 0;
    for (int n = 0; n < N; n++) members += of[n] == c;
    for (int n = 0; n < N; n++)
        for (int i = 0; i < e && of[n] == c; i++) centre[i] += o->tq[n * o->d + at + i] / members;
    for (int j = 0; j < N; j++) a[j] = oracle_dot(centre, o->tk + j * o->d + at, e);
    const bool sure = top_k == 0 || choose_top(top, a, N, top_k);
    for (int j = 0; j < N; j++) a[j] /= sqrt(e);
    oracle_softmax(a, N);
    for (int n = 0; n < N; n++) {
        if (of[n] != c) continue;
        if (top_k) own_weights(o, o->p, a, top, n, head);
        operands_mix(o, R, n, head, top_k ? o->p : a);
        if (!sure) R[n * o->d + at] = NAN;
    }
    free(centre), free(a), free(top);
}

static void cluster_all(const Sublayer *s, double *R, int top_k) {
    const int key = sublayer_key(s, "clusters"), C = key < s->N ? key : s->N;
    Operands o = operands_open(s);
    int *of = ints(o.N);
    for (int head = 0; head < o.h; head++) {
        find_clusters(s, &o, head, C, of);
        settle(s, s->trace.groups ? s->trace.groups + head * s->trace.stride : NULL, of, C,
               "clusters");
        for (int c = 0; c < C; c++) attend_cluster(&o, R, head, of, c, top_k);
    }
    free(of);
    operands_close(&o);
}

void oracle_clustered(const Sublayer *s, double *R) { cluster_all(s, R, 0); }

void oracle_i_clustered(const Sublayer *s, double *R) {
    const int key = sublayer_key(s, "top_k");
    cluster_all(s, R, key < s->N ? key : s->N);
}

/* ---- rounds of hashing: lsh, smyrf ---- */

typedef struct Rounds {
    int count;
    double *out, *lse; /* (rounds,N,d) of each round; (rounds,N,h) log-sum-exps */
} Rounds;

static Rounds rounds_open(const Sublayer *s, const Operands *o) {
    const int count = sublayer_key(s, "rounds");
    return (Rounds){count, oracle_doubles((size_t)(count * o->N * o->d)),
                    oracle_doubles((size_t)(count * o->N * o->h))};
}

/* What token n gets in a round: the weights are a softmax of o->p. */
static void add_round(Rounds *r, const Operands *o, int round, int n, int head) {
    r->lse[(round * o->N + n) * o->h + head] = oracle_softmax(o->p, o->N);
    operands_mix(o, r->out + round * o->N * o->d, n, head, o->p);
}

static void merge_rounds(Rounds *r, const Operands *o, double *R) {
    double *w = oracle_doubles((size_t)r->count);
    for (int n = 0; n < o->N; n++)
        for (int head = 0; head < o->h; head++) {
            for (int i = 0; i < r->count; i++) w[i] = r->lse[(i * o->N + n) * o->h + head];
            oracle_softmax(w, r->count);
            for (int i = 0; i < r->count; i++)
                for (int x = n * o->d + head * o->e; x < n * o->d + (head + 1) * o->e; x++)
                    R[x] += w[i] * r->out[i * o->N * o->d + x];
        }
    free(w), free(r->out), free(r->lse);
}

/* The chunks of tokens in ascending order of x. */
static void cut(const Sublayer *s, const int *said, int round, int rounds, int head,
                const double *x, int size, int *chunk, const char *where) {
    ranks(chunk, x, s->N);
    for (int n = 0; n < s->N; n++) chunk[n] /= size;
    settle(s, said ? said + (head * rounds + round) * s->trace.stride : NULL, chunk,
           (s->N + size - 1) / size, where);
}

/* Queries by their length; a query of 0 stays. */
static double *normalised(const Operands *o, const double *q) {
    double *k = oracle_doubles((size_t)(o->N * o->d));
    for (int at = 0; at < o->N * o->d; at += o->e) {
        const double norm = sqrt(oracle_dot(q + at, q + at, o->e));
        for (int i = at; i < at + o->e && norm > 0; i++) k[i] = q[i] / norm;
    }
    return k;
}

/* argmax of [x R; -x R], R (e,half). */
static int bucket(const double *x, const real *R, int e, int half) {
    double top = -INFINITY;
    int best = 0;
    for (int b = 0; b < 2 * half; b++) {
        double at = 0;
        for (int i = 0; i < e; i++) at += x[i] * (double)R[i * half + b % half];
        if (b >= half) at = -at;
        if (at > top) top = at, best = b;
    }
    return best;
}

void oracle_lsh(const Sublayer *s, double *R) {
    const int half = sublayer_key(s, "buckets") / 2, size = sublayer_key(s, "chunk");
    Operands o = operands_open(s);
    o.k = normalised(&o, o.q), o.tk = normalised(&o, o.tq);
    const int N = o.N, e = o.e;
    Rounds r = rounds_open(s, &o);
    double *buckets = oracle_doubles((size_t)N);
    int *chunk = ints(N);
    for (int round = 0; round < r.count; round++)
        for (int head = 0; head < o.h; head++) {
            const real *rotation = sublayer_own(s, 0) + (round * o.h + head) * e * half;
            for (int n = 0; n < N; n++)
                buckets[n] = bucket(o.q + n * o.d + head * e, rotation, e, half);
            cut(s, s->trace.groups, round, r.count, head, buckets, size, chunk, "chunks");
            for (int n = 0; n < N; n++) {
                for (int j = 0; j < N; j++) {
                    const bool near = chunk[j] == chunk[n] || chunk[j] == chunk[n] - 1;
                    const bool sees = near && (j != n || N == 1);
                    o.p[j] = sees ? operands_score(&o, n, j, head) : -INFINITY;
                }
                add_round(&r, &o, round, n, head);
            }
        }
    merge_rounds(&r, &o, R);
    free(buckets), free(chunk);
    operands_close(&o);
}

static double largest_norm(const Operands *o, const double *x, int head) {
    double most = 0;
    for (int n = 0; n < o->N; n++) {
        const double *row = x + n * o->d + head * o->e;
        most = fmax(most, sqrt(oracle_dot(row, row, o->e)));
    }
    return most;
}

/* Of queries (place 1) or keys (0) of a head: the longer vectors that have one norm M, on a
 * direction (e+2); `place` is where the length that they lack goes. */
static void project(const Operands *o, double *y, const double *x, int head, double M, int place,
                    const real *direction) {
    for (int n = 0; n < o->N; n++) {
        const double *row = x + n * o->d + head * o->e;
        const double lacks = sqrt(fmax(0, M * M - oracle_dot(row, row, o->e)));
        y[n] = lacks * (double)direction[o->e + place];
        for (int i = 0; i < o->e; i++) y[n] += row[i] * (double)direction[i];
    }
}

void oracle_smyrf(const Sublayer *s, double *R) {
    const int size = sublayer_key(s, "cluster_size");
    Operands o = operands_open(s);
    const int N = o.N;
    Rounds r = rounds_open(s, &o);
    double *y = oracle_doubles((size_t)N);
    int *of = ints(N), *of_key = ints(N);
    for (int round = 0; round < r.count; round++)
        for (int head = 0; head < o.h; head++) {
            const real *direction = sublayer_own(s, 0) + (round * o.h + head) * (o.e + 2);
            const double M = hypot(largest_norm(&o, o.q, head), largest_norm(&o, o.k, head));
            project(&o, y, o.q, head, M, 1, direction);
            cut(s, s->trace.groups, round, r.count, head, y, size, of, "chunks of queries");
            project(&o, y, o.k, head, M, 0, direction);
            cut(s, s->trace.groups_key, round, r.count, head, y, size, of_key, "chunks of keys");
            for (int n = 0; n < N; n++) {
                for (int j = 0; j < N; j++)
                    o.p[j] = of[n] == of_key[j] ? operands_score(&o, n, j, head) : -INFINITY;
                add_round(&r, &o, round, n, head);
            }
        }
    merge_rounds(&r, &o, R);
    free(y), free(of), free(of_key);
    operands_close(&o);
}
