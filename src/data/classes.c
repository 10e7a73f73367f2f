#include "data/classes.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "io/json.h"
#include "io/text.h"

/* One level of nesting, since the array holds strings alone. */
enum { DEPTH = 1, SHOWN = 24 };

static bool may_be_shown(const char *name) {
    if (!name[0] || strlen(name) > CLASS_NAME_MOST) return false;
    char *plain = text_of(text_plain, name);
    const bool same = strcmp(plain, name) == 0;
    mem_free(plain);
    return same;
}

static bool read_names(ClassNames *c, const char *path, int classes, Err *err) {
    const int n = cJSON_GetArraySize(c->list);
    char count[16];
    snprintf(count, sizeof count, "%d", n);
    if (!cJSON_IsArray(c->list) || n != classes)
        return err_set(err, EX_DATAERR,
                       "%s: metadata \"" CLASS_NAMES
                       "\": expected a JSON array of %d names, got %s",
                       path, classes, cJSON_IsArray(c->list) ? count : "none");
    c->name = mem_alloc((size_t)n, sizeof *c->name);
    const cJSON *o = c->list->child;
    for (int k = 0; k < n; k++, o = o->next) {
        if (!cJSON_IsString(o) || !may_be_shown(o->valuestring))
            return err_set(err, EX_DATAERR,
                           "%s: metadata \"" CLASS_NAMES
                           "\": of class %d: expected a string of 1 to "
                           "%d bytes without control characters",
                           path, k, CLASS_NAME_MOST);
        c->name[k] = o->valuestring;
    }
    return true;
}

bool classes_take(ClassNames *c, cJSON *list, const char *path, int classes, Err *err) {
    *c = (ClassNames){.list = list};
    if (read_names(c, path, classes, err)) return true;
    classes_close(c);
    return false;
}

bool classes_open(ClassNames *c, const StFile *f, int classes, Err *err) {
    const char *text = st_meta(f, CLASS_NAMES);
    *c = (ClassNames){0};
    if (!text) return true;
    cJSON *list = json_parse(text, strlen(text), ST_MAX_HEADER, DEPTH, f->path, &(Err){0});
    return classes_take(c, list, f->path, classes, err);
}

void classes_close(ClassNames *c) {
    mem_free(c->name);
    cJSON_Delete(c->list);
    *c = (ClassNames){0};
}

bool classes_agree(const ClassNames *c, const ClassNames *first, const char *path, const char *of,
                   int classes, Err *err) {
    for (int k = 0; c->name && first->name && k < classes; k++)
        if (strcmp(c->name[k], first->name[k]) != 0)
            return err_set(err, EX_DATAERR, "%s: calls class %d '%s', which is '%s' in %s", path, k,
                           c->name[k], first->name[k], of);
    return true;
}

const char *class_text(int k, const char *name, char *buf, size_t size) {
    size_t n = name ? strlen(name) : 0;
    if (n > SHOWN)
        for (n = SHOWN; ((unsigned char)name[n] & 0xC0) == 0x80;) n--; /* whole characters */
    if (!name)
        snprintf(buf, size, "%d", k);
    else
        snprintf(buf, size, strchr("0123456789", name[0]) ? "%d (%.*s)" : "%d %.*s", k, (int)n,
                 name);
    return buf;
}
