/* What mechanisms compute, written out from their equations in double and as plainly as can be; and
 * what such definitions share. Nothing here knows how a mechanism goes about it. */
#ifndef TESTS_ORACLES_H
#define TESTS_ORACLES_H

#include "sublayer.h"

/* R (N,d), given as 0: what goes through o in the case. Discrete choices are made here from
 * scratch, and the mechanism must report the same; in float, where rounding may turn one around,
 * those that it reports are taken, and rows that hang on a choice that it does not report and that
 * is too close to call are NaN. */
typedef void Oracle(const Sublayer *s, double *R);

Oracle oracle_full, oracle_local, oracle_performer, oracle_linear, oracle_linformer, oracle_nystrom;
Oracle oracle_clustered, oracle_i_clustered, oracle_lsh, oracle_smyrf;

/* ---- for writing one ---- */

void *oracle_must(void *p);       /* not NULL */
double *oracle_doubles(size_t n); /* 0, to be freed */

double *oracle_input(const Sublayer *s);
/* x W^T + b, x (N,d). */
double *oracle_projected(const Sublayer *s, const double *x, AttnProjection p);
/* Queries or keys as they multiply each other: pairs of columns turned, where positions are rotary.
 */
double *oracle_turned(const Sublayer *s, const double *x);

double oracle_dot(const double *a, const double *b, int n);
/* Over n places, at least one of them above -INFINITY. Returns the log-sum-exp. */
double oracle_softmax(double *x, int n);

/* Of a case, (N,d) each. */
typedef struct Operands {
    int N, d, h, e;
    double *q, *k, *v; /* k: NULL, where keys are not projected */
    double *tq, *tk;   /* turned */
    double *p;         /* (N) room for a row of weights */
} Operands;

Operands operands_open(const Sublayer *s);
void operands_close(Operands *o);
/* <Q_n, K_j> / tau of a head, turned. */
double operands_score(const Operands *o, int n, int j, int head);
/* out (N,d) of token n and a head += sum_j p_j V_j. */
void operands_mix(const Operands *o, double *out, int n, int head, const double *p);

#endif
