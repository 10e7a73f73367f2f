/* The card of exported weights, in Markdown: task and data with their hashes and, of a run, where
 * they come from and whether they are the benchmark's; model, how long it was trained, by what and
 * with which command, how well it does (over seeds, where its run is one of a sweep), how to
 * evaluate and read it, its config. What is not known is left out. */
#ifndef EXPORT_CARD_H
#define EXPORT_CARD_H

#include "data/facts.h"
#include "train/source.h"

typedef struct Card {
    const Source *from;
    const StFile *file;
    const Facts *facts;  /* of a set of one's own */
    const char *weights; /* the exported file's path; the card's own ends in .md */
    bool python;         /* there are readers beside it */
} Card;

/* EX_CANTCREAT, EX_IOERR. */
bool card_write(const char *path, const Card *c, Err *err);

#endif
