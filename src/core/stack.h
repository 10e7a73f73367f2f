/* Stacks that are too small end a program by a signal, or, where an array reaches beyond the page
 * that guards them, spoil what lies there: so they are looked at before. */
#ifndef CORE_STACK_H
#define CORE_STACK_H

#include "core/err.h"

/* What the deepest calls take, several times over. Of these libxsmm takes most: 128 KiB for a
 * kernel. */
enum { STACK_LEAST = 1 << 20 };

/* At the start of main: whether its stack may grow so far (EX_OSERR). */
bool stack_open(Err *err);

#endif
