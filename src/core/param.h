/* How a module describes a parameter to the registry (model/params.h). */
#ifndef CORE_PARAM_H
#define CORE_PARAM_H

enum {
    PARAM_TRAINED = 1, /* has a gradient; others are running statistics or frozen */
    PARAM_DECAYED = 2, /* weight decay applies */
    PARAM_MATRIX = 4,  /* a transposed copy is kept: (rows,cols) as (cols,rows) */
    PARAM_DRAWN = 8    /* drawn once, never trained: other weights may lack it */
};

typedef enum InitKind { INIT_CONST, INIT_NORMAL, INIT_XAVIER } InitKind;

typedef struct Init {
    InitKind kind;
    double value; /* CONST: the value; NORMAL: the standard deviation */
} Init;

typedef struct ParamSpec {
    const char *name;
    int ndim;
    int shape[3];
    Init init;
    unsigned flags;
} ParamSpec;

#endif
