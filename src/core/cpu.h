/* The processor: whether it has what this program was compiled for, and what it is.
 *
 * A program compiled for one processor dies of an illegal instruction on a lesser one, wherever it
 * happens to be. A constructor, compiled for the least of processors and linked into every program,
 * stops it at the start instead: it names what is missing, the MARCH of the build and the remedy,
 * and exits with EX_OSERR: the system lacks what the program needs. */
#ifndef CORE_CPU_H
#define CORE_CPU_H

#include <stddef.h>

/* The first word of `features` ("avx2 fma ...", as compilers call them) that this processor or its
 * operating system lacks, copied into buf; NULL if there is none. Words that are not known are
 * passed over. */
const char *cpu_lacks(const char *features, char *buf, size_t size);

/* "AMD EPYC 9R14": the model as the system calls it. */
const char *cpu_describe(void);
/* "gcc 12.2.0: -std=c11 -O3 ...": the compiler and the flags that decide what it generates. */
const char *cpu_build(void);
/* "avx avx2 tune.znver3 ...": of a build for the processor at hand (-march=native) the flags tell
 * neither these nor the model that it is tuned for. */
const char *cpu_features(void);

#endif
