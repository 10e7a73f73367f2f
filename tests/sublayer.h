/* A mechanism by itself, between random projections; and the configs in which every mechanism of
 * the table is tested. */
#ifndef TESTS_SUBLAYER_H
#define TESTS_SUBLAYER_H

#include "attention/layer.h"
#include "draws.h"
#include "model/params.h"

/* Whether tests are about this one: all are, unless MECHANISM names one. */
bool mech_wanted(const AttnMech *m);
/* Whether it names one. */
bool mech_named(void);

/* A variant is a combination of its switches: booleans, choices, and a size as a number or a word.
 */
int mech_variants(const AttnMech *m);

/* Sizes that go with a variant: its whole numbers and its sizes. */
typedef struct MechSizes {
    int number, size;
} MechSizes;

/* Its keys as JSON, without braces: "type":"cast","clusters":3 ... */
enum { MECH_TEXT = 400 };
void mech_print(char *text, const AttnMech *m, int variant, MechSizes sizes);
/* Configured by such keys, to be freed; NULL: it refuses them, and err says why. */
void *mech_open(const AttnMech *m, const char *text, const AttnShape *shape, Err *err);

typedef struct Sublayer {
    const AttnMech *mech;
    void *self;
    int N, d;
    Params params; /* the projections' and its own */
    size_t linear[ATTN_PROJECTIONS][2], *own;
    real *w, *wt, *dw;     /* (params.total) random, transposed, 0 */
    real *X, *Y, *dX, *dY; /* (N,d) X, dY random */
    real *rope;            /* NULL: nothing turns */
    AttnMemory memory;
    AttnTrace trace;
    AttnMeter meter;
} Sublayer;

/* `self` stays the caller's. */
void sublayer_open(Sublayer *s, const AttnMech *m, void *self, int N, Draws *d);
void sublayer_close(Sublayer *s);
/* From now on positions are rotary. */
void sublayer_turn(Sublayer *s);

/* Each with poison in all that it is not to rely on; trace and meter start anew. */
void sublayer_forward(Sublayer *s);
void sublayer_backward(Sublayer *s);

/* What was drawn for a projection's weight (0) and bias (1), and for its own parameter i. */
const real *sublayer_linear(const Sublayer *s, AttnProjection p, int part);
const real *sublayer_own(const Sublayer *s, int i);
/* The value of one of its keys: a whole number, or as one a size, a choice or a switch. */
int sublayer_key(const Sublayer *s, const char *name);

#endif
