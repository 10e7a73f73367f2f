#include "export/reader.h"

#include <string.h>

#include "io/json.h"

/* A file's bytes as a string of the program. The path is from where make is called. */
#define EMBED(name, path)                                                                          \
    __asm__(".section .rodata\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.previous\n");           \
    extern const char name[] __attribute__((visibility("hidden")))

EMBED(reader_numpy, "src/export/model_numpy.py");
EMBED(reader_torch, "src/export/model_torch.py");

static const char *const mechanisms[] = {"cast", "full", "naive"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

bool reader_fits(const Source *s, const StFile *f, Err *err) {
    const char *type = json_string(s->run.config, "model.attention.type");
    int i = 0;
    while (i < MECHANISMS && (!type || strcmp(type, mechanisms[i]) != 0)) i++;
    if (i == MECHANISMS)
        return err_set(err, EX_CONFIG,
                       "%s: --python: there is no reader in Python of %s attention, but of cast, "
                       "full and naive",
                       s->path, type ? type : "such");
    return st_find(f, "fc2.weight") ||
           err_set(err, EX_CONFIG,
                   "%s: --python: a reader computes classes, and this model has no classifier: "
                   "there is no tensor 'fc2.weight'",
                   s->path);
}

bool reader_write(const char *path, Reader which, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_READER, err)) return false;
    fputs(which == READER_NUMPY ? reader_numpy : reader_torch, a.f);
    return atomic_commit(&a, err);
}
