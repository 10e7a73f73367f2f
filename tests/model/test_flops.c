/* What counts as work: products alone, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tiny.h"

enum { D = 8, FF = 6, EMB = 5, TAPS = 3, DEPTH = 2, VOCAB = 7, CLASSES = 3, N = 9 };

static const TinyConf all = {.depth = DEPTH,
                             .heads = 2,
                             .d = D,
                             .d_ff = FF,
                             .d_emb = EMB,
                             .max_length = 16,
                             .conv = TAPS,
                             .vocab = VOCAB,
                             .classes = CLASSES,
                             .attention = "\"type\":\"full\""};

/* Multiply-adds of `tokens` in the blocks: q, k, v, o, two layers of the feed-forward, scores and
 * values, taps. */
static double blocks(double tokens) {
    return DEPTH * tokens * (4 * D * D + 2 * D * FF + 2 * tokens * D + TAPS * D);
}

static void expect(TinyConf conf, int length, double document, double head) {
    Tiny t;
    tiny_open(&t, conf, draws_open("flops", 1));
    const double counted = model_flops(&t.m, length), of_head = model_head_flops(&t.m);
    if (counted != 2 * document || of_head != 2 * head)
        fail_msg("%g and %g operations for %g and %g", counted, of_head, 2 * document, 2 * head);
    tiny_close(&t);
}

static void work_is_counted_by_hand(void **state) {
    const double single = D * D + D * CLASSES;
    TinyConf c = all;
    (void)state;
    expect(c, N, N * EMB * D + blocks(N), single);
    expect(c, 99, 16 * EMB * D + blocks(16), single); /* cut */
    c.pooling = "cls";
    expect(c, N, (N + 1) * EMB * D + blocks(N + 1), single);
    c.pooling = NULL, c.d_emb = D, c.per_example = 2;
    expect(c, N, blocks(N), 4 * D * D + D * CLASSES); /* features of both, of what they differ in */
    c.per_example = 1, c.masked = 0.3;
    expect(c, N, blocks(N) + 3 * D * VOCAB, 0); /* 2.7 tokens are guessed */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_is_counted_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
