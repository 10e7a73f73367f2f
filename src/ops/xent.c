#include "ops/xent.h"

#include <math.h>

#include "ops/attnfn.h"
#include "ops/vec.h"

/* target[k] = smoothing / K + (k == label) (1 - smoothing), so that
 *   loss = lse - sum_k target[k] logits[k]      d loss / d logits[k] = softmax[k] - target[k] */

/* What smoothing adds to the loss. */
static double smoothed(const real *logits, int label, double smoothing, int K) {
    double sum = 0;
    if (smoothing <= 0) return 0;
    for (int k = 0; k < K; k++) sum += (double)logits[k];
    return smoothing * ((double)logits[label] - sum / K);
}

double xent(real *dlogits, const real *logits, int label, double scale, double smoothing, int K) {
    const double all = smoothing / K, more = 1 - smoothing;
    double top = (double)logits[0], sum = 0;
    for (int k = 1; k < K; k++) top = (double)logits[k] > top ? (double)logits[k] : top;
    for (int k = 0; k < K; k++) sum += exp((double)logits[k] - top);
    double lse = top + log(sum);
    if (dlogits)
        for (int k = 0; k < K; k++)
            dlogits[k] +=
                (real)(scale * (exp((double)logits[k] - lse) - ((k == label) * more + all)));
    return lse - (double)logits[label] + smoothed(logits, label, smoothing, K);
}

int xent_argmax(const real *logits, int K) {
    int best = 0;
    for (int k = 1; k < K; k++)
        if (logits[k] > logits[best]) best = k;
    return best;
}

/* The log-sum-exp through the largest probability, which is 1/K at least. */
double xent_rows(real *x, const int *labels, double scale, double smoothing, int R, int K,
                 int *correct) {
    const real each = (real)(scale * smoothing / K), more = (real)scale - (real)K * each;
    double loss = 0;
    for (int r = 0; r < R; r++, x += K) {
        const int best = xent_argmax(x, K), label = labels[r];
        const double top = (double)x[best], labelled = (double)x[label];
        loss += smoothed(x, label, smoothing, K);
        attnfn_forward(ATTN_SOFTMAX, x, x, 1, K);
        loss += top - log((double)x[best]) - labelled;
        *correct += best == label;
        EACH_VEC(k, left, K, vec_store(x + k, (real)scale * vec_load(x + k, left) - each, left));
        x[label] -= more;
    }
    return loss;
}
