/* Attention in a window: token i attends exactly to the tokens j with |i - j| <= floor(window / 2)
 * (Beltagy, Peters, Cohan 2020, arXiv:2004.05150). Time O(N w d), memory O(N d); see exact.h.
 * What Long Range Arena's code calls local attention is another thing: it attends along the wrong
 * axis of its blocks, so that its tokens are strided and not neighbours. */
#include "attention/exact.h"

typedef struct Local {
    AttnShape shape;
    int window;
} Local;

static const ConfigKey keys[] = {
    {"window", KEY_INT, offsetof(Local, window), "128", 1, 1 << 20, NULL,
     "a token sees those at most half as many places away, and itself"},
    {0},
};

static AttendBand band(const Local *s) {
    return (AttendBand){.first = -(s->window / 2), .last = s->window / 2};
}

static AttnMemory needs(const void *self, int N, bool backward) {
    return exact_needs(&attn_local, self, N, backward);
}

static void tell(const Local *s, const AttnCall *c) {
    for (int head = 0; head < s->shape.h; head++)
        for (int i = 0; i < c->N; i++)
            for (int j = attend_from(band(s), i); j < attend_to(band(s), i, c->N); j++)
                attn_trace_sees(c->trace, head, i, j);
}

static void forward(const void *self, const AttnCall *c) {
    if (c->trace && c->trace->seen) tell(self, c);
    exact_forward(&attn_local, self, band(self), c);
}

static void backward(const void *self, const AttnCall *c) {
    exact_backward(&attn_local, self, band(self), c);
}

static double flops(const void *self, int N) { return exact_flops(self, band(self), N); }

const AttnMech attn_local = {
    .name = "local",
    .title = "exact attention in a window around each token",
    .time = "O(N w)",
    .memory = "O(N)",
    .reference = "arXiv:2004.05150",
    .projections = ATTN_QKVO,
    .subset = true,
    .keys = keys,
    .self_size = sizeof(Local),
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
