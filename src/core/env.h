/* The environment's variables. */
#ifndef CORE_ENV_H
#define CORE_ENV_H

/* The number that the variable is, or has before its first comma (OMP_NUM_THREADS=8,2); 0: it is
 * not set, or not a positive number below 65536. */
int env_positive(const char *name);

#endif
