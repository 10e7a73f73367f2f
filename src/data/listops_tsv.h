/* ListOps as the Long Range Arena's program writes it: basic_{train,val,test}.tsv, a header
 * "Source<TAB>Target" and a line an expression, ended by CR and LF. The expression is printed as
 * the binary tree that the program holds it in, so that "[MAX 4 2 ]" is "( ( ( [MAX 4 ) 2 ) ] )".
 *
 * Reading drops round parentheses (they must be balanced), as LRA's own input pipeline does, keeps
 * the closing brackets, and works out every target again. */
#ifndef DATA_LISTOPS_TSV_H
#define DATA_LISTOPS_TSV_H

#include "data/task.h"
#include "io/lines.h"

#define LISTOPS_TRAIN "basic_train.tsv"
#define LISTOPS_TSV_SOURCE "the Long Range Arena's listops-1000"

/* The members of the task's row. */
bool listops_import(const Task *t, const TaskRequest *r, Err *err);
bool listops_locate(char *place, const char *from);

/* The ids of an expression, with or without parentheses, in the current line of `l`, into `ids`,
 * which has room for half its bytes and one more: how many; -1: EX_DATAERR, words and parentheses
 * are wrong, or it has no value. */
int listops_read(const Lines *l, Span source, int *ids, Err *err);

/* Whether they may be written into `to`: what is there in their places are such files
 * (EX_CANTCREAT). */
bool listops_may_export(const char *to, Err *err);
/* Writes the three files into `to` from the prepared splits in `dir`: EX_NOINPUT and EX_DATAERR of
 * these, EX_CANTCREAT, EX_IOERR. */
bool listops_export(const char *dir, const char *to, Err *err);

#endif
