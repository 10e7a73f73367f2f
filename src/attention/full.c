/* Exact softmax attention (Vaswani et al. 2017, arXiv:1706.03762), tiled with an online softmax:
 * the fair baseline. Time O(N^2 d), memory O(N d); see exact.h. */
#include "attention/exact.h"

static AttnMemory needs(const void *self, int N, bool backward) {
    return exact_needs(&attn_full, self, N, backward);
}

static void forward(const void *self, const AttnCall *c) {
    exact_forward(&attn_full, self, ATTEND_ALL, c);
}

static void backward(const void *self, const AttnCall *c) {
    exact_backward(&attn_full, self, ATTEND_ALL, c);
}

static double flops(const void *self, int N) { return exact_flops(self, ATTEND_ALL, N); }

const AttnMech attn_full = {
    .name = "full",
    .title = "exact softmax attention in tiles",
    .time = "O(N^2)",
    .memory = "O(N)",
    .reference = "arXiv:1706.03762",
    .projections = ATTN_QKVO,
    .self_size = sizeof(AttnShape),
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
