#include "data/listops_value.h"

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

int listops_value(const int *tokens, int n) {
    Frame frames[LISTOPS_NESTING];
    int depth = 0;
    for (int i = 0; i < n; i++) {
        int id = tokens[i], value;
        if (id >= LISTOPS_MIN && id <= LISTOPS_SM) {
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
