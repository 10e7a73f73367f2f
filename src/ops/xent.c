#include "ops/xent.h"

#include <math.h>
#include <stddef.h>

#include "ops/attnfn.h"
#include "ops/vec.h"

double xent(real *dlogits, const real *logits, int label, double scale, int K) {
    double top = (double)logits[0], sum = 0;
    for (int k = 1; k < K; k++) top = (double)logits[k] > top ? (double)logits[k] : top;
    for (int k = 0; k < K; k++) sum += exp((double)logits[k] - top);
    double lse = top + log(sum);
    if (dlogits)
        for (int k = 0; k < K; k++)
            dlogits[k] += (real)(scale * (exp((double)logits[k] - lse) - (k == label)));
    return lse - (double)logits[label];
}

int xent_argmax(const real *logits, int K) {
    int best = 0;
    for (int k = 1; k < K; k++)
        if (logits[k] > logits[best]) best = k;
    return best;
}

/* The log-sum-exp through the largest probability, which is 1/K at least. */
double xent_rows(real *x, const int *labels, double scale, int R, int K, int *right) {
    double loss = 0;
    for (int r = 0; r < R; r++, x += K) {
        const int best = xent_argmax(x, K), label = labels[r];
        const double top = (double)x[best], labelled = (double)x[label];
        attnfn_forward(ATTN_SOFTMAX, x, x, 1, K);
        loss += top - log((double)x[best]) - labelled;
        *right += best == label;
        EACH_VEC(k, left, K, vec_store(x + k, (real)scale * vec_load(x + k, left), left));
        x[label] -= (real)scale;
    }
    return loss;
}
