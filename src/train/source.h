/* Where trained weights come from: a run's directory, which stands for its config.json and one of
 * its checkpoints; a checkpoint (train/state.h) or exported weights, with the config in their
 * metadata; or other safetensors, parameters by their names and no config.
 *
 * Exported weights are safetensors too: every parameter by its name, and metadata: format, config
 * (as a checkpoint has it), update (which the weights are of), crc32, set (data/facts.h), and what
 * the checkpoint said of what it was made with (train/identity.h). */
#ifndef TRAIN_SOURCE_H
#define TRAIN_SOURCE_H

#include "io/safetensors.h"
#include "train/run.h"

#define WEIGHTS_FORMAT "cast-weights-1"

/* Of a run: best.safetensors; last.safetensors; the newest of those that train.keep kept; the best,
 * or without one the last. The last of these takes files without a config too. */
typedef enum SourceWhich { SOURCE_BEST, SOURCE_LAST, SOURCE_AVERAGE, SOURCE_ANY } SourceWhich;

typedef struct Source {
    char path[FILE_PATH_MAX];
    const char
        *which; /* "best", "last" or "average"; of no run "checkpoint", "weights" or "tensors" */
    int64_t update; /* that the weights are of; -1: not known */
    Run run;        /* its `config` is what was trained, of a file too; NULL: not known; dir "":
                       of none */
} Source;

/* Opens the file that `place` stands for, whole and of this version. EX_NOINPUT: no such place, or
 * no checkpoint in it; EX_DATAERR: damaged, or not what it must be; EX_USAGE: SOURCE_LAST or
 * SOURCE_AVERAGE of a file. On error nothing is to be closed. */
bool source_open(Source *s, StFile *f, const char *place, SourceWhich which, Err *err);
void source_close(Source *s);

/* Whether they are a run's last ones. */
bool source_is_last(const Source *s);
/* Of a run, the checkpoints that train.keep kept, by rising update; at least one (EX_NOINPUT). To
 * be freed. */
bool source_list_kept(const Source *s, FileList *paths, Err *err);
/* Opens one of these in place of the file that was opened; errors as above. */
bool source_open_kept(Source *s, StFile *f, const char *path, Err *err);

#endif
