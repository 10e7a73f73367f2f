/* What gives a run its bits, beside its config: the data, by the hashes of the files that it reads,
 * and the kernels, the processor and the build that compute. With other data it is another run;
 * with other kernels it is the same, of which an uninterrupted one would have had other bits.
 *
 * A checkpoint keeps it in its metadata, under the names here. Those of 0.1.0 have none of it. */
#ifndef TRAIN_IDENTITY_H
#define TRAIN_IDENTITY_H

#include "train/loader.h"

/* The first SPLITS parts are the splits' hashes; of one that is held out of another, "". */
enum { IDENTITY_KERNELS = SPLITS, IDENTITY_PROCESSOR, IDENTITY_BUILD, IDENTITY_PARTS };
enum { IDENTITY_TEXT = 512 };
/* "data.train", ..., "kernels", "processor", "build". */
extern const char *const identity_names[IDENTITY_PARTS];

typedef struct Identity {
    char part[IDENTITY_PARTS][IDENTITY_TEXT]; /* "": not known */
} Identity;

/* Of this process, and of the splits that f has open. */
void identity_here(Identity *id, const Loader *f);

/* From a checkpoint, and into one: the metadata that it adds, whose number is returned. Their
 * values are in *id. */
void identity_read(Identity *id, const StFile *checkpoint);
int identity_meta(const Identity *id, StMeta meta[IDENTITY_PARTS]);

/* Whether all parts are the same, and are known as far as those of the other. */
bool identity_same(const Identity *a, const Identity *b);
/* Whether both know this part and it is another one now. */
bool identity_differs(const Identity *was, const Identity *now, int part);
/* Whether any split is known to be another. */
bool identity_other_data(const Identity *was, const Identity *now);

/* Whether the run of a checkpoint goes on here. Other data than those of f are refused (EX_CONFIG),
 * or with `accept` told; what else differs is told, and what the checkpoint does not say. */
bool identity_goes_on(const Identity *was, const Identity *now, const Loader *f,
                      const char *checkpoint, bool accept, Err *err);
/* What to do where the data of a checkpoint's run are missing, behind the EX_NOINPUT that says so;
 * another error is left as it is. Returns false. */
bool identity_no_data(const Config *c, const char *checkpoint, Err *err);
/* Tells where what f has open are other data than the checkpoint's. */
void identity_warn_data(const Identity *was, const Loader *f, const char *checkpoint);

#endif
