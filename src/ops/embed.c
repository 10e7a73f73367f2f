#include "ops/embed.h"

#include <math.h>
#include <stddef.h>

#include "ops/vec.h"

void embed_forward(real *restrict y, const int *ids, const real *restrict tok,
                   const real *restrict mask, const real *restrict pos, int rows, int d) {
    for (int r = 0; r < rows; r++, y += d) {
        const real *t = ids[r] == TOKEN_MASKED ? mask : tok + (size_t)ids[r] * (size_t)d;
        if (pos)
            vec_add(y, t, pos + (size_t)r * (size_t)d, d);
        else
            vec_copy(y, t, d);
    }
}

void embed_backward(real *dtok, real *dmask, real *dpos, const real *dy, const int *ids, int rows,
                    int d) {
    for (int r = 0; r < rows; r++) {
        const real *row = dy + (size_t)r * (size_t)d;
        real *to = ids[r] == TOKEN_MASKED ? dmask : dtok + (size_t)ids[r] * (size_t)d;
        vec_add(to, to, row, d);
        if (dpos) vec_add(dpos + (size_t)r * (size_t)d, dpos + (size_t)r * (size_t)d, row, d);
    }
}

void embed_sinusoidal(real *pos, int N, int d) {
    for (int j = 0; j < d; j++) {
        const double wave = pow(10000.0, (double)(j / 2 * 2) / d);
        for (int n = 0; n < N; n++)
            pos[(size_t)n * (size_t)d + (size_t)j] = (real)(j % 2 ? cos(n / wave) : sin(n / wave));
    }
}
