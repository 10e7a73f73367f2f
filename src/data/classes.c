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

bool classes_open(ClassNames *c, const StFile *f, int classes, Err *err) {
    const char *text = st_meta(f, "labels");
    *c = (ClassNames){0};
    if (!text) return true;
    c->list = json_parse(text, strlen(text), ST_MAX_HEADER, DEPTH, f->path, &(Err){0});
    const bool fits = cJSON_IsArray(c->list) && cJSON_GetArraySize(c->list) == classes;
    if (fits) c->name = mem_alloc((size_t)classes, sizeof *c->name);
    int k = 0;
    for (const cJSON *o = fits ? c->list->child : NULL; o; o = o->next) {
        if (!cJSON_IsString(o) || !may_be_shown(o->valuestring)) break;
        c->name[k++] = o->valuestring;
    }
    if (k == classes) return true;
    classes_close(c);
    return err_set(err, EX_DATAERR,
                   "%s: metadata \"labels\": expected a JSON array of %d names of 1 to %d bytes, "
                   "got %.80s",
                   f->path, classes, CLASS_NAME_MOST, text);
}

void classes_close(ClassNames *c) {
    mem_free(c->name);
    cJSON_Delete(c->list);
    *c = (ClassNames){0};
}

bool classes_agree(const ClassNames *c, const ClassNames *trained, const char *path, int classes,
                   Err *err) {
    for (int k = 0; c->name && trained->name && k < classes; k++)
        if (strcmp(c->name[k], trained->name[k]) != 0)
            return err_set(err, EX_DATAERR,
                           "%s: calls class %d '%s', and the training split '%s': are they of one "
                           "set?",
                           path, k, c->name[k], trained->name[k]);
    return true;
}

const char *class_text(int k, const char *name, char *buf, size_t size) {
    size_t n = name ? strlen(name) : 0;
    if (n > SHOWN)
        for (n = SHOWN; ((unsigned char)name[n] & 0xC0) == 0x80;) n--; /* whole characters */
    snprintf(buf, size, "%d%s%.*s", k, name ? " " : "", (int)n, name ? name : "");
    return buf;
}
