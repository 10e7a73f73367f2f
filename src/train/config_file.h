/* Config files as people name them: one that is not there is looked for among the configs that come
 * with the program, and one may name another that it is based on. */
#ifndef TRAIN_CONFIG_FILE_H
#define TRAIN_CONFIG_FILE_H

#include <cjson/cJSON.h>

#include "io/file.h"

/* Reads the config that `path` stands for: the file; or, of a name alone, with or without ".json",
 * the shipped one. `where` becomes its path, for messages. With "base": PATH, from the file's own
 * directory, it is that config with what the file says in its place, section by section; another
 * mechanism starts from its own defaults. NULL: EX_NOINPUT, with the nearest name beside it;
 * EX_CONFIG; EX_USAGE: a key=value stands in CONFIG's place. */
cJSON *config_file_read(const char *path, char where[FILE_PATH_MAX], Err *err);

/* Where the error is of a key in the config at `where`, and of a base it has that from, adds which
 * one. */
void config_file_blame(Err *err, const char *where);

/* The names of the shipped ones, from column `indent` on. */
void config_file_print_shipped(FILE *f, int indent);

#endif
