#include "data/listops_value.h"

#include <string.h>

const char *const listops_words[LISTOPS_VOCAB] = {
    "<pad>", "[MIN", "[MAX", "[MED", "[SM", "]", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

/* An operator whose arguments are being read: how many there are of each digit. */
typedef struct Frame {
    int op, n;
    int sum; /* modulo 10 */
    int count[10];
} Frame;

/* The k-th smallest argument, from 0. */
static int ranked(const Frame *f, int k) {
    int digit = 0;
    while (k >= f->count[digit]) k -= f->count[digit++];
    return digit;
}

static int apply(const Frame *f) {
    if (f->op == LISTOPS_MIN) return ranked(f, 0);
    if (f->op == LISTOPS_MAX) return ranked(f, f->n - 1);
    if (f->op == LISTOPS_MED) return (ranked(f, (f->n - 1) / 2) + ranked(f, f->n / 2)) / 2;
    return f->sum;
}

static bool opens(int id) { return id >= LISTOPS_MIN && id <= LISTOPS_SM; }

int listops_value(const int *tokens, int n) {
    Frame frames[LISTOPS_NESTING];
    int depth = 0;
    for (int i = 0; i < n; i++) {
        int id = tokens[i], value;
        if (opens(id)) {
            if (depth == LISTOPS_NESTING) return -1;
            frames[depth++] = (Frame){.op = id};
            continue;
        }
        if (id == LISTOPS_CLOSE) {
            if (depth == 0 || frames[depth - 1].n == 0) return -1;
            value = apply(&frames[--depth]);
        } else {
            if (id < LISTOPS_DIGIT || id >= LISTOPS_VOCAB) return -1;
            value = id - LISTOPS_DIGIT;
        }
        if (depth == 0) return i == n - 1 ? value : -1;
        Frame *f = &frames[depth - 1];
        f->n++;
        f->sum = (f->sum + value) % 10;
        f->count[value]++;
    }
    return -1;
}

/* ---- other orders ---- */

/* Where the arguments that fill n ids start, and how long they are; how many. */
static int find_arguments(const int *ids, int n, int *start, int *length) {
    int count = 0, depth = 0;
    for (int i = 0; i < n; i++) {
        if (depth == 0) start[count++] = i;
        depth += opens(ids[i]) - (ids[i] == LISTOPS_CLOSE);
        if (depth == 0) length[count - 1] = i + 1 - start[count - 1];
    }
    return count;
}

/* One after the other of those that are left. scratch: 3n. */
static void shuffle_arguments(int *ids, int n, int *scratch, RngStream *s) {
    int *start = scratch, *length = scratch + n, *copy = scratch + 2 * n, at = 0;
    for (int left = find_arguments(ids, n, start, length); left > 0; left--) {
        const int i = (int)rng_stream_below(s, (uint32_t)left);
        memcpy(copy + at, ids + start[i], (size_t)length[i] * sizeof *ids);
        at += length[i];
        start[i] = start[left - 1];
        length[i] = length[left - 1];
    }
    memcpy(ids, copy, (size_t)n * sizeof *ids);
}

void listops_shuffle(const Augment *a, int *ids, int n, int *scratch, RngKey key) {
    RngStream s = rng_stream(key, 0);
    int *open = scratch + 3 * n, depth = 0;
    (void)a;
    for (int i = 0; i < n; i++) {
        if (opens(ids[i])) open[depth++] = i + 1;
        if (ids[i] != LISTOPS_CLOSE || depth == 0) continue;
        const int from = open[--depth];
        shuffle_arguments(ids + from, i - from, scratch, &s);
    }
}
