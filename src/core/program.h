/* A program's command line as a table: what reads it (core/option.h), --help and the page of its
 * manual are made from. */
#ifndef CORE_PROGRAM_H
#define CORE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"

enum { OPTION_MOST_THREADS = 4096 };

typedef enum OptionKind {
    OPTION_FLAG, /* bool, true where it is given */
    OPTION_TEXT, /* const char * */
    OPTION_INT,  /* int, from `least` to `most` */
    OPTION_SEED, /* uint64_t */
    OPTION_REAL, /* double, positive */
    OPTION_WORD, /* int, the place among `words` */
    OPTION_OWN,  /* whatever `take` makes of it */
    OPTION_SHOW  /* prints something and ends the program, as --help does */
} OptionKind;

/* Reads --name's text (NULL where it takes no value) into the value. */
typedef bool OptionTake(void *value, const char *name, const char *text, Err *err);

typedef struct Option {
    const char *name;
    OptionKind kind;
    size_t offset;     /* of the value in the program's struct */
    const char *value; /* what --help calls it; NULL: the option takes none */
    const char *help;  /* with the default; NULL: --help tells of it elsewhere */
    int least, most;
    const char *const *words; /* ends with NULL */
    OptionTake *take;
    void (*show)(FILE *f);
    unsigned verbs; /* of a program with verbs, a bit for each that takes the option */
} Option;

typedef struct Program {
    const char *name;
    const char *title;     /* what it is, in a line: "trains a model" */
    const char *usage;     /* --help: what stands before the options, a line a paragraph */
    const Option *options; /* ends with a row without a name */
    const char *notes;     /* --help: what follows the options; NULL: nothing */
    void (*more)(FILE *f); /* --help: prints what follows these; NULL: nothing */
    void (*keys)(FILE *f); /* what --help keys prints; NULL: there is no such */
    const char *needs;     /* what the first word is that must be there: "CONFIG"; NULL: none */
    bool ranks;            /* it shares its work out among the processes of mpirun */
} Program;

#endif
