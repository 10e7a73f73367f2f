/* The command lines of programs. A program is a table of its options (core/program.h), which
 * getopt_long, the values and --help are made from; --help (-h) and --version are in it for all.
 * Errors are EX_USAGE and name the option and what was expected. */
#ifndef CORE_OPTION_H
#define CORE_OPTION_H

#include <limits.h>

#include "core/program.h"

/* What a command line holds besides values. */
typedef struct CommandLine {
    char *const *words; /* that are no options, in order; NULL behind the last */
    int nwords;
    uint64_t given; /* a bit for each row of the options, the lowest for the first */
} CommandLine;

/* Reads argv, which getopt_long permutes, into *out, the program's struct. Where --help or
 * --version is given it prints that and ends the program; with "man" behind --help what
 * core/manual.h makes. As all programs begin with it, it also
 * sees to their stack (core/stack.h: EX_OSERR). */
bool option_parse(CommandLine *line, void *out, const Program *p, int argc, char **argv, Err *err);

/* Whether one of its rows was given. */
bool option_given(const CommandLine *line, const Option *rows, const char *name);

/* The values of --option: a whole number from least to most, a seed, a positive number. */
bool option_int(const char *option, const char *text, int least, int most, int *out, Err *err);
bool option_seed(const char *option, const char *text, uint64_t *out, Err *err);
/* Above 0 and below 1e9. */
bool option_real(const char *option, const char *text, double *out, Err *err);

/* A path that is to be given to a program of ours: one that begins with '-' would be an option
 * there. Into buf where that is needed. */
const char *option_path(char *buf, size_t size, const char *path);

/* A word as a shell reads it, quoted where it must be; a whole command line, to be freed
 * (before option_parse: that permutes argv). */
void option_print_word(FILE *f, const char *word);
char *option_command(int argc, char *const *argv);

#endif
