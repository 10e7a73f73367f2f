/* A trained model as files of its own, to be kept and handed on:
 *
 *   NAME.safetensors   its weights alone (train/source.h), a third of a checkpoint
 *   NAME.md            a card: what it is, how it was trained, how well it does
 *   NAME_numpy.py, NAME_torch.py   with `python`: what reads the weights and computes the model,
 *                      for NumPy and PyTorch, each a file that needs no other */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "core/err.h"

typedef struct ExportRequest {
    const char *place; /* a run's directory, a checkpoint, or what was exported */
    const char *out;   /* NAME; its directory is made */
    bool last;         /* of a run: last.safetensors */
    bool python;
} ExportRequest;

/* Files of their kind are replaced. EX_NOINPUT, EX_DATAERR: there are no trained weights at
 * `place`; EX_CONFIG: there is no reader of such a model; EX_SOFTWARE: a weight is not finite;
 * EX_USAGE: NAME.safetensors is what is read, or its name is too long; EX_CANTCREAT, EX_IOERR: it
 * cannot be written. */
bool export_model(const ExportRequest *r, Err *err);

#endif
