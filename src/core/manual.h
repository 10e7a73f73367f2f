/* A program's page of the manual, for man: made from what --help prints. `make install` calls each
 * program with --help man. */
#ifndef CORE_MANUAL_H
#define CORE_MANUAL_H

#include "core/program.h"

void manual_print(FILE *f, const Program *p);

#endif
