/* cJSON lets much pass that JSON forbids, so the text is scanned first by a grammar of our own;
 * cJSON then builds the tree, and duplicate keys are looked for there, where escapes are resolved.
 * O(n log n). */
#include "io/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/utf8.h"
#include "io/file.h"
#include "io/meant.h"

enum { NUMBER_MAX = 63 }; /* cJSON cuts longer ones */

typedef struct Scan {
    const char *text;
    size_t len, at;
    int depth, max_depth;
    size_t keys;              /* keys seen so far */
    size_t wanted, wanted_at; /* where key number `wanted` begins */
    const char *where;
    Err *err;
} Scan;

/* "where:line:column: ...", columns counted in characters. */
__attribute__((format(printf, 3, 4))) static bool fail_at(const Scan *s, size_t at, const char *fmt,
                                                          ...) {
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        if (s->text[i] == '\n') {
            line++;
            column = 1;
        } else if ((s->text[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    return err_set(s->err, EX_CONFIG, "%s:%zu:%zu: %s", s->where, line, column, what);
}

static int peek(const Scan *s) { return s->at < s->len ? (unsigned char)s->text[s->at] : -1; }

static bool expected(const Scan *s, const char *what) {
    char found[32];
    int c = peek(s);
    if (c < 0)
        snprintf(found, sizeof found, "the end of the text");
    else if (c > 0x20 && c < 0x7f)
        snprintf(found, sizeof found, "'%c'", c);
    else
        snprintf(found, sizeof found, "byte 0x%02x", (unsigned)c);
    return fail_at(s, s->at, "expected %s, found %s%s", what, found,
                   c == '/' || c == '#' ? "; JSON has no comments" : "");
}

static void skip_space(Scan *s) {
    while (s->at < s->len && memchr(" \t\r\n", s->text[s->at], 4)) s->at++;
}

static size_t skip_digits(Scan *s) {
    size_t from = s->at;
    while (peek(s) >= '0' && peek(s) <= '9') s->at++;
    return s->at - from;
}

static bool scan_number(Scan *s) {
    size_t from = s->at, first;
    char copy[NUMBER_MAX + 1];
    if (peek(s) == '-') s->at++;
    first = s->at;
    size_t whole = skip_digits(s);
    if (whole == 0) return expected(s, "a digit");
    if (whole > 1 && s->text[first] == '0')
        return fail_at(s, first, "a number may not begin with a superfluous 0");
    if (peek(s) == '.') {
        s->at++;
        if (skip_digits(s) == 0) return expected(s, "a digit after the decimal point");
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        if (skip_digits(s) == 0) return expected(s, "a digit in the exponent");
    }
    size_t n = s->at - from;
    if (n > NUMBER_MAX) return fail_at(s, from, "a number may have at most 63 characters");
    memcpy(copy, s->text + from, n);
    copy[n] = '\0';
    if (isinf(strtod(copy, NULL))) return fail_at(s, from, "the number is too large for a double");
    return true;
}

/* Four hex digits after \u; -1 and an error if they are none. */
static int scan_hex(Scan *s) {
    int value = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *d = peek(s) > 0 ? strchr(digits, peek(s)) : NULL;
        if (!d) {
            expected(s, "four hexadecimal digits after \\u");
            return -1;
        }
        value = value * 16 + (int)(d - digits) - (d - digits > 15 ? 6 : 0);
    }
    return value;
}

static bool scan_escape(Scan *s) {
    size_t from = s->at++;
    int c = peek(s);
    if (c > 0 && c != 'u' && strchr("\"\\/bfnrt", c)) {
        s->at++;
        return true;
    }
    if (c != 'u') return expected(s, "one of \" \\ / b f n r t u after a backslash");
    s->at++;
    int high = scan_hex(s);
    if (high < 0) return false;
    if (high == 0) return fail_at(s, from, "\\u0000 is not allowed in a string");
    if ((high & 0xf800) != 0xd800) return true;
    if (high >= 0xdc00 || s->len - s->at < 2 || memcmp(s->text + s->at, "\\u", 2) != 0)
        return fail_at(s, from, "half of a surrogate pair");
    s->at += 2;
    int low = scan_hex(s);
    if (low < 0) return false;
    return (low & 0xfc00) == 0xdc00 || fail_at(s, from, "half of a surrogate pair");
}

static bool scan_string(Scan *s) {
    size_t from = s->at++;
    for (int c; (c = peek(s)) != '"';) {
        if (c < 0) return fail_at(s, from, "the string has no closing quote");
        if (c < 0x20) return expected(s, "\\n, \\t or \\u00xx for a control character in a string");
        if (c == '\\') {
            if (!scan_escape(s)) return false;
            continue;
        }
        int n = utf8_length(s->text + s->at, s->len - s->at);
        if (n == 0) return expected(s, "UTF-8");
        s->at += (size_t)n;
    }
    s->at++;
    return true;
}

static bool scan_value(Scan *s);

static bool scan_key(Scan *s) {
    if (peek(s) == '}') return expected(s, "another key after the comma");
    if (peek(s) != '"') return expected(s, "a key in double quotes");
    if (s->keys++ == s->wanted) s->wanted_at = s->at;
    if (!scan_string(s)) return false;
    skip_space(s);
    if (peek(s) != ':') return expected(s, "':' after a key");
    s->at++;
    return true;
}

/* An object or an array, from its opening bracket to its closing one. */
static bool scan_members(Scan *s, bool object) {
    int close = object ? '}' : ']';
    if (++s->depth > s->max_depth)
        return fail_at(s, s->at, "nested more than %d deep", s->max_depth);
    s->at++;
    skip_space(s);
    bool more = peek(s) != close;
    while (more) {
        skip_space(s);
        if (object && !scan_key(s)) return false;
        if (!scan_value(s)) return false;
        skip_space(s);
        more = peek(s) == ',';
        if (more)
            s->at++;
        else if (peek(s) != close)
            return expected(s, object ? "',' or '}'" : "',' or ']'");
    }
    s->at++;
    s->depth--;
    return true;
}

static bool scan_value(Scan *s) {
    static const char *const words[] = {"true", "false", "null"};
    skip_space(s);
    int c = peek(s);
    if (c == '{' || c == '[') return scan_members(s, c == '{');
    if (c == '"') return scan_string(s);
    if (c == '-' || (c >= '0' && c <= '9')) return scan_number(s);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (s->len - s->at < n || memcmp(s->text + s->at, words[i], n) != 0) continue;
        s->at += n;
        return true;
    }
    return expected(s, "a value");
}

static bool scan_text(Scan *s) {
    if (s->len >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
        return fail_at(s, 0, "begins with a byte order mark; save it as UTF-8 without one");
    if (!scan_value(s)) return false;
    skip_space(s);
    return s->at == s->len || expected(s, "the end of the text");
}

typedef struct KeyAt {
    const char *key;
    size_t number; /* in the order of the text */
} KeyAt;

static int by_key(const void *a, const void *b) {
    const KeyAt *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

/* The first key of the tree below `item` that repeats one of its object; its number goes to
 * *number, and *count counts keys in the order of scan_key. NULL: none. Sorted, because a header
 * may hold 300,000 keys. */
static const char *find_duplicate(const cJSON *item, size_t *count, size_t *number) {
    size_t n = 0;
    const char *found = NULL;
    KeyAt *keys = NULL;
    if (cJSON_IsObject(item)) keys = mem_alloc((size_t)cJSON_GetArraySize(item), sizeof *keys);
    for (const cJSON *child = item->child; child && !found; child = child->next) {
        if (keys) keys[n++] = (KeyAt){child->string, (*count)++};
        found = find_duplicate(child, count, number);
    }
    if (n > 1 && !found) {
        qsort(keys, n, sizeof *keys, by_key);
        for (size_t i = 1; i < n && !found; i++) {
            if (strcmp(keys[i].key, keys[i - 1].key) != 0) continue;
            found = keys[i].key;
            *number = keys[i].number;
        }
    }
    mem_free(keys);
    return found;
}

static bool check_duplicates(const Scan *scanned, const cJSON *root) {
    size_t count = 0;
    Scan s = *scanned;
    const char *key = find_duplicate(root, &count, &s.wanted);
    if (!key) return true;
    s.at = s.keys = 0;
    scan_text(&s);
    return fail_at(&s, s.wanted_at, "the key \"%.200s\" occurs twice in its object", key);
}

cJSON *json_parse(const char *text, size_t len, size_t max_len, int max_depth, const char *where,
                  Err *err) {
    Scan s = {.text = text, .len = len, .max_depth = max_depth, .where = where, .err = err};
    s.wanted = SIZE_MAX;
    if (len > max_len) {
        err_set(err, EX_CONFIG, "%s: %zu bytes; at most %zu are read", where, len, max_len);
        return NULL;
    }
    if (!scan_text(&s)) return NULL;
    cJSON *root = cJSON_ParseWithLength(text, len);
    REQUIRE(root, "%s: cJSON does not take it", where);
    if (check_duplicates(&s, root)) return root;
    cJSON_Delete(root);
    return NULL;
}

cJSON *json_read(const char *path, Err *err) {
    FileMap m;
    if (!file_map(&m, path, err)) {
        if (err->code == EX_DATAERR) err->code = EX_CONFIG;
        if (err->code == EX_NOINPUT) meant_add(path, err);
        return NULL;
    }
    cJSON *root =
        json_parse((const char *)m.data, m.size, JSON_MAX_BYTES, JSON_MAX_DEPTH, path, err);
    file_unmap(&m);
    if (!root || cJSON_IsObject(root)) return root;
    err_set(err, EX_CONFIG, "%s: a config is an object: { \"key\": value, ... }", path);
    cJSON_Delete(root);
    return NULL;
}

cJSON *json_at(const cJSON *root, const char *path) {
    while (root) {
        const size_t n = strcspn(path, ".");
        char name[128];
        if (n >= sizeof name) return NULL;
        memcpy(name, path, n);
        name[n] = '\0';
        cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
        if (!path[n]) return item;
        root = item;
        path += n + 1;
    }
    return NULL;
}

const char *json_string(const cJSON *root, const char *path) {
    return cJSON_GetStringValue(json_at(root, path));
}

double json_number(const cJSON *root, const char *path) {
    return cJSON_GetNumberValue(json_at(root, path));
}

cJSON *json_value(const char *text, int max_depth) {
    Err unused;
    cJSON *item = json_parse(text, strlen(text), JSON_MAX_BYTES, max_depth, "", &unused);
    return item ? item : cJSON_CreateString(text);
}

static bool check_assignment(const char *assignment, Err *err) {
    const char *equals = strchr(assignment, '=');
    size_t len = strlen(assignment), key = equals ? (size_t)(equals - assignment) : 0;
    if (key == 0)
        return err_set(err, EX_USAGE, "'%s': expected key=value, as in model.depth=4", assignment);
    for (size_t i = 0, n; i < len; i += n) {
        n = (size_t)utf8_length(assignment + i, len - i);
        if (n == 0) return err_set(err, EX_USAGE, "'%s': is not UTF-8", assignment);
    }
    for (size_t i = 0; i <= key; i++) {
        bool ends = i == key || assignment[i] == '.';
        if (ends && (i == 0 || assignment[i - 1] == '.'))
            return err_set(err, EX_USAGE, "'%s': a part of the key is empty", assignment);
    }
    return true;
}

/* The object that holds the last part of `key`, created on the way where it is absent. Cuts `key`
 * into its parts; *last points to the last, *depth counts them. NULL and err: the way is barred. */
static cJSON *enter(cJSON *root, char *key, char **last, int *depth, const char *assignment,
                    Err *err) {
    cJSON *parent = root;
    char *part = key;
    *depth = 1;
    for (char *dot; (dot = strchr(part, '.')); part = dot + 1) {
        *dot = '\0';
        if (++*depth > JSON_MAX_DEPTH) {
            err_set(err, EX_USAGE, "'%s': the key has more than %d parts", assignment,
                    JSON_MAX_DEPTH);
            return NULL;
        }
        cJSON *child = cJSON_GetObjectItemCaseSensitive(parent, part);
        if (!child) child = cJSON_AddObjectToObject(parent, part);
        if (!cJSON_IsObject(child)) {
            err_set(err, EX_USAGE, "'%s': '%s' is not an object, so it has no keys", assignment,
                    part);
            return NULL;
        }
        parent = child;
    }
    *last = part;
    return parent;
}

/* What begins as an object or a list is meant as one. */
static cJSON *read_value(const char *value, int max_depth, const char *assignment, Err *err) {
    if (!strchr("{[", *value) || !*value) return json_value(value, max_depth);
    return json_parse(value, strlen(value), JSON_MAX_BYTES, max_depth, assignment, err);
}

/* A value that begins with a quote is JSON in either case. */
static bool override(cJSON *root, const char *assignment, bool as_text, Err *err) {
    if (!check_assignment(assignment, err)) return false;
    size_t n = strcspn(assignment, "=");
    const char *value = assignment + n + 1;
    char *key = mem_strdup(assignment), *last = NULL;
    int depth = 0;
    key[n] = '\0';
    cJSON *parent = enter(root, key, &last, &depth, assignment, err);
    if (parent) {
        cJSON *item = as_text && *value != '"'
                          ? cJSON_CreateString(value)
                          : read_value(value, JSON_MAX_DEPTH - depth, assignment, err);
        if (!item)
            parent = NULL;
        else if (cJSON_GetObjectItemCaseSensitive(parent, last))
            cJSON_ReplaceItemInObjectCaseSensitive(parent, last, item);
        else
            cJSON_AddItemToObject(parent, last, item);
    }
    mem_free(key);
    return parent != NULL;
}

bool json_override(cJSON *root, const char *assignment, Err *err) {
    return override(root, assignment, false, err);
}

bool json_override_text(cJSON *root, const char *assignment, Err *err) {
    return override(root, assignment, true, err);
}
