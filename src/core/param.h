/* How a module describes a parameter to the registry (model/params.h). */
#ifndef CORE_PARAM_H
#define CORE_PARAM_H

enum {
    PARAM_TRAINED = 1, /* has a gradient; others are running statistics or frozen */
    PARAM_DECAYED = 2, /* weight decay applies */
    PARAM_MATRIX = 4,  /* a transposed copy is kept: (rows,cols) as (cols,rows) */
    PARAM_DRAWN = 8,   /* drawn once, never trained: other weights may lack it */
    PARAM_APART = 16   /* of a mechanism that can be swapped in and out although it trains this: it
                          is drawn where weights of another lack it, and can be left behind */
};

/* INIT_XAVIER: of (out,in,...), two dimensions at least, uniform in +-sqrt(6 / (in + out)).
 * INIT_HYPERPLANES: normals of unit variance, 0 in the last column. INIT_ORTHOGONAL: of (...,m,e)
 * each (m,e) by itself: blocks of e orthogonal directions, the last one cut, each row as long as a
 * vector of e normals is (Yu et al. 2016, arXiv:1610.09072). INIT_SMOOTH: rows of
 * (n,e) have unit variance, and i and j a correlation of exp(-((i - j) value / n)^2 / 2): each
 * column is a cosine over i of its own frequency and phase (Rahimi & Recht 2007). */
typedef enum InitKind {
    INIT_CONST,
    INIT_NORMAL,
    INIT_UNIFORM,
    INIT_XAVIER,
    INIT_HYPERPLANES,
    INIT_ORTHOGONAL,
    INIT_SMOOTH
} InitKind;

typedef struct Init {
    InitKind kind;
    double value; /* CONST: the value; NORMAL: the standard deviation; UNIFORM: up to +-value;
                     SMOOTH: how many correlation lengths all rows span */
} Init;

enum { PARAM_MAX_DIMS = 4 };

typedef struct ParamSpec {
    const char *name;
    int ndim;
    int shape[PARAM_MAX_DIMS];
    Init init;
    unsigned flags;
} ParamSpec;

#endif
