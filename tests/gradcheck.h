/* Analytic gradients against central differences.
 *
 * A case has inputs, which are moved, and outputs, which a random cotangent dy makes into one
 * number f = sum of <y, dy>. `forward` reads the inputs and overwrites the outputs; `backward` adds
 * to the inputs' gradients. Whatever they must not rely on is made to hurt: outputs start as NaN,
 * gradients as noise that is taken off again.
 *
 * The derivative along a direction u is (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h, with f(s) at
 * x + s u: truncation is of order h^4, so h can be large enough for rounding to stay near 1e-12.
 * Where they differ, a step of a sixteenth counts if it comes sixteen times nearer.
 * Cases of at most 4096 inputs are checked element by element; in others, and where a case says so,
 * a tensor of more than 64 elements is checked along 64 random directions.
 *
 * A tensor's error is max|a - n| / max(max|n|, 1e-3 of the largest gradient in the case). */
#ifndef TESTS_GRADCHECK_H
#define TESTS_GRADCHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "draws.h"

#define GRAD_BAR 1e-6
enum { GRAD_ELEMENTS = 4096, GRAD_DIRECTIONS = 64, GRAD_SHAPES = 20 };
enum { GRAD_TENSORS = 96, GRAD_TEXT = 256 };

typedef struct GradTensor {
    char name[64];
    size_t n;
    real *x, *dx; /* an output's value and cotangent */
    real *noise;  /* what an input's dx held before backward */
    bool fixed;   /* does not train: it is not moved, and nothing may be added to its dx */
    bool own;     /* whose memory it is */
} GradTensor;

typedef struct GradCase {
    char what[GRAD_TEXT]; /* for messages */
    Draws draws;
    GradTensor inputs[GRAD_TENSORS], outputs[2];
    int ninputs, noutputs;
    bool directions; /* set by the caller: however few inputs there are */
    /* Set by `forward` when a discrete choice came out otherwise than before: the function jumps
     * there, and the case does not count. */
    bool jumped;
} GradCase;

typedef void GradStep(void *ctx);

/* The message is printf's; shapes belong into it. */
void grad_open(GradCase *c, Draws draws, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void grad_close(GradCase *c);

/* n reals drawn from N(0, std^2). The tensor stays where it is until grad_close. */
GradTensor *grad_input(GradCase *c, const char *name, size_t n, double std);
/* The same of memory that the caller keeps; `dx` holds what it is to hold before backward. */
GradTensor *grad_input_at(GradCase *c, const char *name, real *x, real *dx, size_t n);
GradTensor *grad_output(GradCase *c, const char *name, size_t n);

/* Runs forward and backward, then compares. Fails the test beyond GRAD_BAR. False: the case jumped.
 */
bool grad_check(GradCase *c, GradStep *forward, GradStep *backward, void *ctx);

/* Prints and forgets what was seen since the last call: cases, those that jumped, the worst error.
 * Fails if there were no cases, or if more than a fifth of them jumped. */
void grad_report(const char *what);

/* For cmocka_run_group_tests: one thread, so that a test costs what it computes. */
int grad_setup(void **state);

void poison(void *x, size_t bytes);

#endif
