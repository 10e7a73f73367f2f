/* Strict JSON over cJSON: what RFC 8259 says, and nothing that cJSON lets pass beyond it.
 *
 * Refused, with line and column: duplicate keys, trailing text, leading zeros and other malformed
 * numbers, numbers that overflow to infinity or are longer than 63 characters, raw control
 * characters, bad UTF-8, escaped NUL, lone surrogates, byte order marks, nesting beyond 16, files
 * beyond 1 MiB. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "core/err.h"

enum { JSON_MAX_DEPTH = 16, JSON_MAX_BYTES = 1 << 20 };

/* Parses text of `len` bytes; `where` names it in messages ("configs/image.json"). The caller frees
 * with cJSON_Delete. NULL and err (EX_CONFIG) on error. `max_len` and `max_depth` are limits. */
cJSON *json_parse(const char *text, size_t len, size_t max_len, int max_depth, const char *where,
                  Err *err);

/* Reads and parses a config file, which must hold an object. NULL: EX_NOINPUT when it cannot be
 * read, EX_CONFIG otherwise. */
cJSON *json_read(const char *path, Err *err);

/* The value at a dotted path, "model.attention.clusters"; NULL: there is none. */
cJSON *json_at(const cJSON *root, const char *path);

/* The string there; NULL: there is none. */
const char *json_string(const cJSON *root, const char *path);

/* The number there; NaN: there is none. */
double json_number(const cJSON *root, const char *path);

/* The value that a text stands for: JSON where it parses as JSON that is no deeper, else a string.
 * To be deleted. */
cJSON *json_value(const char *text, int max_depth);

/* Sets the dotted path to `value`, creating objects on the way: "model.attention.clusters=32", as
 * json_value has it; but what begins with { or [ must be JSON (EX_CONFIG). EX_USAGE: no '=', an
 * empty key, a path that leads through something other than an object, or has more than 16 parts,
 * bad UTF-8. */
bool json_override(cJSON *root, const char *assignment, Err *err);
/* The same of a value that is a string, whatever it looks like: "data.dir=2024"; but quotes around
 * it are JSON's. */
bool json_override_text(cJSON *root, const char *assignment, Err *err);

#endif
