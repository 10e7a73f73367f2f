#include "train/history.h"

#include <string.h>

#include "io/file.h"
#include "io/json.h"

enum { LINE_MAX_BYTES = 1 << 16 };

static void take_line(const char *line, size_t n, int64_t update, double *seconds) {
    Err ignored;
    cJSON *o = json_parse(line, n, LINE_MAX_BYTES, JSON_MAX_DEPTH, "metrics", &ignored);
    const char *kind = json_string(o, "kind");
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(o, "step");
    const cJSON *time = cJSON_GetObjectItemCaseSensitive(o, "seconds");
    const bool tells = kind && (!strcmp(kind, "train") || !strcmp(kind, "save"));
    if (tells && cJSON_IsNumber(step) && cJSON_IsNumber(time) &&
        step->valuedouble <= (double)update)
        *seconds = time->valuedouble;
    cJSON_Delete(o);
}

bool history_seconds(const char *path, int64_t update, double *seconds, Err *err) {
    FileMap map;
    *seconds = 0;
    if (file_is_empty(path)) return true;
    if (!file_map(&map, path, err)) return false;
    const char *text = (const char *)map.data, *end = text + map.size, *newline;
    for (; (newline = memchr(text, '\n', (size_t)(end - text))); text = newline + 1)
        take_line(text, (size_t)(newline - text), update, seconds);
    file_unmap(&map);
    return true;
}
