/* JSON, written: trees of cJSON, and the pieces of lines that are made without one. */
#ifndef IO_JSON_PRINT_H
#define IO_JSON_PRINT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/err.h"

/* Writes the tree, an object that json_read takes, indented, atomically (see io/file.h). */
bool json_write(const cJSON *root, const char *path, Err *err);

/* The same to a stream, with a newline. */
void json_print(FILE *f, const cJSON *root);

/* The same in one line: a row of several. */
void json_print_line(FILE *f, const cJSON *root);

/* A value in one line, a string without its quotes; to be freed with mem_free. */
char *json_text(const cJSON *value);

/* A quoted, escaped string; bytes that are not UTF-8 become U+FFFD. */
void json_print_string(FILE *f, const char *s);
/* With the given number of significant digits, at least 1; null for NaN and infinities. */
void json_print_number(FILE *f, double x, int digits);

#endif
