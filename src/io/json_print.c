#include "io/json_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/utf8.h"
#include "io/file.h"
#include "io/json.h"
#include "io/text.h"

void json_print_string(FILE *f, const char *s) {
    size_t left = strlen(s);
    fputc('"', f);
    while (left > 0) {
        int n = utf8_length(s, left);
        unsigned char c = (unsigned char)*s;
        if (n == 0)
            fputs("\\ufffd", f);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (utf8_is_control(s))
            fprintf(f, "\\u%04x", n == 1 ? c : (unsigned char)s[1]); /* as U+0080 to U+009F are */
        else
            fwrite(s, 1, (size_t)n, f);
        s += n ? n : 1;
        left -= n ? (size_t)n : 1;
    }
    fputc('"', f);
}

void json_print_number(FILE *f, double x, int digits) {
    if (isfinite(x))
        fprintf(f, "%.*g", digits, x);
    else
        fputs("null", f);
}

/* The fewest digits that give the same number back: 0.1 and not 0.10000000000000001. */
static void print_exact(FILE *f, double x) {
    char buf[32];
    int digits = 15;
    if (x == rint(x) && fabs(x) < 9007199254740992.0) {
        fprintf(f, "%.0f", x);
        return;
    }
    for (; digits < 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, x);
        if (strtod(buf, NULL) == x) break;
    }
    json_print_number(f, x, digits);
}

static void print_scalar(FILE *f, const cJSON *item) {
    if (cJSON_IsString(item))
        json_print_string(f, item->valuestring);
    else if (cJSON_IsNumber(item))
        print_exact(f, item->valuedouble);
    else if (cJSON_IsBool(item))
        fputs(cJSON_IsTrue(item) ? "true" : "false", f);
    else
        fputs("null", f);
}

enum { ONE_LINE = -1 };

/* Objects a line a member, indented by so much, arrays on one line; or ONE_LINE of all, close
 * together. */
static void print_value(FILE *f, const cJSON *item, int indent) {
    const bool close = indent == ONE_LINE, object = cJSON_IsObject(item);
    const int inside = close ? ONE_LINE : indent + 2;
    if (!object && !cJSON_IsArray(item)) {
        print_scalar(f, item);
        return;
    }
    fputc(object ? '{' : '[', f);
    for (const cJSON *child = item->child; child; child = child->next) {
        if (object) {
            if (!close) fprintf(f, "\n%*s", inside, "");
            json_print_string(f, child->string);
            fputs(close ? ":" : ": ", f);
        }
        print_value(f, child, inside);
        if (child->next) fputs(object || close ? "," : ", ", f);
    }
    if (object && item->child && !close) fprintf(f, "\n%*s", indent, "");
    fputc(object ? '}' : ']', f);
}

void json_print(FILE *f, const cJSON *root) {
    print_value(f, root, 0);
    fputc('\n', f);
}

void json_print_line(FILE *f, const cJSON *root) {
    print_value(f, root, ONE_LINE);
    fputc('\n', f);
}

char *json_text(const cJSON *value) {
    char *text;
    size_t size;
    if (cJSON_IsString(value)) return mem_strdup(value->valuestring);
    FILE *f = text_stream(&text, &size);
    print_value(f, value, ONE_LINE);
    fclose(f);
    return text;
}

static bool reads_back(const char *path, Err *err) {
    cJSON *root = json_read(path, err);
    const bool ok = root != NULL;
    cJSON_Delete(root);
    return ok;
}

bool json_write(const cJSON *root, const char *path, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_JSON, err)) return false;
    a.check = reads_back;
    json_print(a.f, root);
    return atomic_commit(&a, err);
}
