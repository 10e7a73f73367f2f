/* The command lines of programs. A program is a table of its options, which getopt_long, the values
 * and --help are made from; --help (-h) and --version are in it for all. Errors are EX_USAGE and
 * name the option and what was expected. */
#ifndef CORE_OPTION_H
#define CORE_OPTION_H

#include <limits.h>
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
    OPTION_OWN   /* whatever `take` makes of it */
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
    unsigned verbs; /* of a program with verbs, a bit for each that takes the option */
} Option;

typedef struct Program {
    const char *name;
    const char *usage;     /* --help: what stands before the options, a line a paragraph */
    const Option *options; /* ends with a row without a name */
    const char *notes;     /* --help: what follows the options; NULL: nothing */
    void (*more)(FILE *f); /* --help: prints what follows these; NULL: nothing */
    void (*keys)(FILE *f); /* what --help keys prints; NULL: there is no such */
    const char *needs;     /* what the first word is that must be there: "CONFIG"; NULL: none */
} Program;

/* What a command line holds besides values. */
typedef struct CommandLine {
    char *const *words; /* that are no options, in order; NULL behind the last */
    int nwords;
    uint64_t given; /* a bit for each row of the options, the lowest for the first */
} CommandLine;

/* Reads argv, which getopt_long permutes, into *out, the program's struct. Where --help or
 * --version is given it prints that and ends the program. As all programs begin with it, it also
 * sees to their stack (core/stack.h: EX_OSERR). */
bool option_parse(CommandLine *line, void *out, const Program *p, int argc, char **argv, Err *err);

/* The values of --option: a whole number from least to most, a seed, a positive number. */
bool option_int(const char *option, const char *text, int least, int most, int *out, Err *err);
bool option_seed(const char *option, const char *text, uint64_t *out, Err *err);
bool option_real(const char *option, const char *text, double *out, Err *err);

/* A word as a shell reads it, quoted where it must be; a whole command line, to be freed
 * (before option_parse: that permutes argv). */
void option_print_word(FILE *f, const char *word);
char *option_command(int argc, char *const *argv);

#endif
