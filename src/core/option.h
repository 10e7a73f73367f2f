/* What programs share in reading their command lines beside getopt_long. Errors are EX_USAGE and
 * name the option and what was expected. */
#ifndef CORE_OPTION_H
#define CORE_OPTION_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"

enum { OPTION_MOST_THREADS = 4096 };

/* The values of --option: a whole number from least to most, a seed, a positive number. */
bool option_int(const char *option, const char *text, int least, int most, int *out, Err *err);
bool option_seed(const char *option, const char *text, uint64_t *out, Err *err);
bool option_real(const char *option, const char *text, double *out, Err *err);

/* One of `words`: its place among them. */
bool option_word(const char *option, const char *text, const char *const *words, int count,
                 int *out, Err *err);

/* A word as a shell reads it, quoted where it must be; a whole command line, to be freed
 * (getopt_long permutes argv). */
void option_print_word(FILE *f, const char *word);
char *option_command(int argc, char *const *argv);

/* For getopt_long's ':' (a value is missing) and '?' (no such option), opterr being 0. */
bool option_wrong(const char *program, int c, char *const *argv, int optind_now, Err *err);

#endif
