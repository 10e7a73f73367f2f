#include "io/schema.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/nearest.h"
#include "io/json.h"

enum { NAME_SIZE = 256, WORDS_MAX = 64, TEXT_SIZE = 512 };

/* A list of words: choices, or the keys of an object. */
typedef struct Words {
    const char *word[WORDS_MAX + 1]; /* ends with NULL */
    int n;
    char text[TEXT_SIZE];
} Words;

static void words_add(Words *w, const char *word) {
    REQUIRE(w->n < WORDS_MAX, "more than %d words", WORDS_MAX);
    w->word[w->n++] = word;
}

/* `spaced` (may be NULL) is copied to w->text, into which the words then point. */
static void words_split(Words *w, const char *spaced) {
    *w = (Words){0};
    if (!spaced) return;
    REQUIRE(strlen(spaced) < sizeof w->text, "too long: '%s'", spaced);
    memcpy(w->text, spaced, strlen(spaced) + 1);
    for (char *p = w->text; *(p += strspn(p, " "));) {
        words_add(w, p);
        p += strcspn(p, " ");
        if (*p) *p++ = '\0';
    }
}

static void words_of_choices(Words *w, const ConfigKey *k) {
    words_split(w, k->type == KEY_INT || k->type == KEY_REAL ? NULL : k->choices);
    for (const char *word; k->choice && (word = k->choice(w->n));) words_add(w, word);
}

static int words_index(const Words *w, const char *word) {
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->word[i], word) == 0) return i;
    return -1;
}

static void words_of_keys(Words *w, const ConfigKey *keys, const char *skip) {
    words_split(w, skip);
    for (const ConfigKey *k = keys; k->name; k++) words_add(w, k->name);
}

/* Appends the words with ", " between them; NULL behind the last. */
static void words_join(const char *const *words, char buf[TEXT_SIZE]) {
    for (int i = 0; words[i]; i++) format_add(buf, TEXT_SIZE, "%s%s", i ? ", " : "", words[i]);
}

const char *schema_word(const char *choices, int index, char *buf, size_t size) {
    Words w;
    words_split(&w, choices);
    REQUIRE(index >= 0 && index < w.n, "no word %d in '%s'", index, choices);
    snprintf(buf, size, "%s", w.word[index]);
    return buf;
}

static void dotted(char buf[NAME_SIZE], const char *prefix, const char *name) {
    size_t n = strlen(prefix);
    const char *dot = n == 0 || *name == '\0' || prefix[n - 1] == '.' ? "" : ".";
    snprintf(buf, NAME_SIZE, "%.100s%s%.100s", prefix, dot, name);
}

static bool is_parity(const ConfigKey *k, const char *parity) {
    return k->type == KEY_INT && k->choices && !strcmp(k->choices, parity);
}

static bool may_be_minus_1(const ConfigKey *k) {
    return k->type == KEY_REAL && k->choices && !strcmp(k->choices, KEY_OR_MINUS_1);
}

/* "an integer from 1 to 64", "an even integer from 2 to 256". */
static void describe_range(const ConfigKey *k, char buf[TEXT_SIZE]) {
    bool whole = k->type != KEY_REAL;
    const char *what = is_parity(k, KEY_EVEN)       ? "an even integer"
                       : is_parity(k, KEY_ODD_OR_0) ? "0 or an odd integer"
                       : whole                      ? "an integer"
                                                    : "a number";
    bool below = k->min > (whole ? INT_MIN : -1e300), above = whole || k->max < 1e300;
    if (below && above)
        snprintf(buf, TEXT_SIZE, "%s from %.15g to %.15g", what, k->min, k->max);
    else if (below)
        snprintf(buf, TEXT_SIZE, "%s of at least %.15g", what, k->min);
    else if (above)
        snprintf(buf, TEXT_SIZE, "%s of at most %.15g", what, k->max);
    else
        snprintf(buf, TEXT_SIZE, "%s", what);
    if (may_be_minus_1(k)) format_add(buf, TEXT_SIZE, ", or -1");
}

static void describe(const ConfigKey *k, char buf[TEXT_SIZE]) {
    Words w;
    words_of_choices(&w, k);
    *buf = '\0';
    switch (k->type) {
    case KEY_INT:
    case KEY_REAL: describe_range(k, buf); return;
    case KEY_BOOL: snprintf(buf, TEXT_SIZE, "true or false"); return;
    case KEY_TEXT:
        snprintf(buf, TEXT_SIZE, "a string of at most %d bytes", KEY_TEXT_MAX - 1);
        return;
    case KEY_SIZE:
        describe_range(k, buf);
        format_add(buf, TEXT_SIZE, " or ");
        /* fall through */
    case KEY_CHOICE:
        if (w.n > 1) format_add(buf, TEXT_SIZE, "one of ");
        words_join(w.word, buf);
    }
}

/* All digits of one are of use. */
static bool is_whole(double x) { return floor(x) == x && fabs(x) < 1e18; }

/* The value as a person would recognise it in the file. */
static void show(const cJSON *v, char buf[NAME_SIZE]) {
    if (cJSON_IsString(v) && strlen(v->valuestring) <= 60)
        snprintf(buf, NAME_SIZE, "\"%s\"", v->valuestring);
    else if (cJSON_IsString(v))
        snprintf(buf, NAME_SIZE, "\"%.60s...\"", v->valuestring);
    else if (cJSON_IsNumber(v))
        snprintf(buf, NAME_SIZE, is_whole(v->valuedouble) ? "%.0f" : "%.15g", v->valuedouble);
    else if (cJSON_IsBool(v))
        snprintf(buf, NAME_SIZE, "%s", cJSON_IsTrue(v) ? "true" : "false");
    else if (cJSON_IsObject(v))
        snprintf(buf, NAME_SIZE, "an object");
    else if (cJSON_IsArray(v))
        snprintf(buf, NAME_SIZE, "an array");
    else
        snprintf(buf, NAME_SIZE, "null");
}

static bool store_int(int *out, const ConfigKey *k, const cJSON *v) {
    double x = v->valuedouble;
    if (!cJSON_IsNumber(v) || x != rint(x)) return false;
    if (x < fmax(k->min, INT_MIN) || x > fmin(k->max, INT_MAX)) return false;
    const bool odd = fmod(x, 2) != 0;
    if (is_parity(k, KEY_EVEN) && odd) return false;
    if (is_parity(k, KEY_ODD_OR_0) && !odd && x != 0) return false;
    *out = (int)x;
    return true;
}

static bool store_word(int *out, const ConfigKey *k, const cJSON *v) {
    if (!cJSON_IsString(v)) return false;
    Words w;
    words_of_choices(&w, k);
    int index = words_index(&w, v->valuestring);
    if (index < 0) return false;
    *out = k->type == KEY_SIZE ? -1 - index : index;
    return true;
}

/* False, and *out untouched, if the key does not take the value. */
static bool store(void *out, const ConfigKey *k, const cJSON *v) {
    void *at = (char *)out + k->offset;
    double x = v->valuedouble;
    switch (k->type) {
    case KEY_INT: return store_int(at, k, v);
    case KEY_CHOICE: return store_word(at, k, v);
    case KEY_SIZE: return store_int(at, k, v) || store_word(at, k, v);
    case KEY_REAL:
        if (!cJSON_IsNumber(v)) return false;
        if (!(x >= k->min && x <= k->max) && !(may_be_minus_1(k) && x == -1)) return false;
        *(double *)at = x;
        return true;
    case KEY_BOOL:
        if (!cJSON_IsBool(v)) return false;
        *(bool *)at = cJSON_IsTrue(v);
        return true;
    case KEY_TEXT:
        if (!cJSON_IsString(v) || strlen(v->valuestring) >= KEY_TEXT_MAX) return false;
        memcpy(at, v->valuestring, strlen(v->valuestring) + 1);
        return true;
    }
    return false;
}

static cJSON *parse_fallback(const ConfigKey *k) {
    Err err;
    size_t n = strlen(k->fallback);
    cJSON *v = json_parse(k->fallback, n, JSON_MAX_BYTES, JSON_MAX_DEPTH, "default", &err);
    REQUIRE(v, "key '%s': %s", k->name, err.text);
    return v;
}

const ConfigKey *schema_usual(const ConfigKey *keys, const char *name) {
    Words w;
    for (; keys->name; keys++) {
        words_split(&w, keys->also);
        if (words_index(&w, name) >= 0) return keys;
    }
    return NULL;
}

static bool unknown_key(const char *where, const char *prefix, const cJSON *v,
                        const ConfigKey *keys, const Words *known, Err *err) {
    char key[NAME_SIZE], got[NAME_SIZE], other[NAME_SIZE], meant[2 * NAME_SIZE] = "";
    char all[TEXT_SIZE] = "";
    const ConfigKey *usual = schema_usual(keys, v->string);
    const char *nearest = usual ? usual->name : nearest_word(v->string, known->word);
    dotted(key, prefix, v->string);
    show(v, got);
    words_join(known->word, all);
    if (nearest) {
        dotted(other, prefix, nearest);
        snprintf(meant, sizeof meant, "; did you mean '%s'?", other);
    }
    err_set(err, EX_CONFIG, "%s: key '%s' is unknown%s (got %s; %s%s)", where, key, meant, got,
            all[0] ? "the keys here are " : "there are no keys here", all);
    return err_blame(err, key);
}

static bool refuse(const char *where, const char *key, const char *allowed, const char *got,
                   const char *nearest, Err *err) {
    err_set(err, EX_CONFIG, "%s: key '%s' must be %s, got %s%s%s%s", where, key, allowed, got,
            nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    return err_blame(err, key);
}

static bool bad_value(const char *where, const char *key, const ConfigKey *k, const cJSON *v,
                      Err *err) {
    char allowed[TEXT_SIZE], got[NAME_SIZE];
    Words w;
    words_of_choices(&w, k);
    const char *nearest = cJSON_IsString(v) ? nearest_word(v->valuestring, w.word) : NULL;
    describe(k, allowed);
    show(v, got);
    return refuse(where, key, allowed, got, nearest, err);
}

static bool read_key(void *out, const ConfigKey *k, const cJSON *v, const char *where,
                     const char *prefix, Err *err) {
    char key[NAME_SIZE], allowed[TEXT_SIZE];
    dotted(key, prefix, k->name);
    if (v) return store(out, k, v) || bad_value(where, key, k, v, err);
    if (!k->fallback) {
        describe(k, allowed);
        return err_set(err, EX_CONFIG, "%s: key '%s' is missing; it must be %s", where, key,
                       allowed);
    }
    cJSON *fallback = parse_fallback(k);
    REQUIRE(store(out, k, fallback), "key '%s' does not take its default %s", k->name, k->fallback);
    cJSON_Delete(fallback);
    return true;
}

bool schema_check(const ConfigKey *keys, const cJSON *obj, const char *where, const char *prefix,
                  const char *skip, Err *err) {
    Words known;
    char got[NAME_SIZE];
    words_of_keys(&known, keys, skip);
    if (obj && !cJSON_IsObject(obj)) {
        show(obj, got);
        err_set(err, EX_CONFIG, "%s: key '%s' must be an object, got %s", where, prefix, got);
        return err_blame(err, prefix);
    }
    for (const cJSON *v = obj ? obj->child : NULL; v; v = v->next)
        if (words_index(&known, v->string) < 0)
            return unknown_key(where, prefix, v, keys, &known, err);
    return true;
}

bool schema_read(void *out, const ConfigKey *keys, const cJSON *obj, const char *where,
                 const char *prefix, const char *skip, Err *err) {
    if (!schema_check(keys, obj, where, prefix, skip, err)) return false;
    for (const ConfigKey *k = keys; k->name; k++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, k->name);
        if (!read_key(out, k, v, where, prefix, err)) return false;
    }
    return true;
}

const ConfigKey *schema_find(const ConfigKey *keys, const char *name) {
    for (; keys->name; keys++)
        if (!strcmp(keys->name, name)) return keys;
    return NULL;
}

cJSON *schema_complete(const ConfigKey *keys, cJSON *root, const char *section) {
    cJSON *obj = cJSON_GetObjectItemCaseSensitive(root, section);
    if (!obj) obj = cJSON_AddObjectToObject(root, section);
    if (!cJSON_IsObject(obj)) return NULL;
    for (const ConfigKey *k = keys; k->name; k++)
        if (k->fallback && !cJSON_GetObjectItemCaseSensitive(obj, k->name))
            cJSON_AddItemToObject(obj, k->name, parse_fallback(k));
    return obj;
}

/* The word that the value of a KEY_CHOICE or KEY_SIZE stands for; NULL where it is a number. */
static const char *word_of(const ConfigKey *k, int value, char *buf, size_t size) {
    const int index = k->type == KEY_CHOICE ? value : -1 - value;
    if (index < 0) return NULL;
    return k->choice ? k->choice(index) : schema_word(k->choices, index, buf, size);
}

void schema_write(const void *in, const ConfigKey *keys, cJSON *obj) {
    char buf[TEXT_SIZE];
    for (const ConfigKey *k = keys; k->name; k++) {
        const void *at = (const char *)in + k->offset;
        const char *word = NULL;
        switch (k->type) {
        case KEY_INT: cJSON_AddNumberToObject(obj, k->name, *(const int *)at); break;
        case KEY_REAL: cJSON_AddNumberToObject(obj, k->name, *(const double *)at); break;
        case KEY_BOOL: cJSON_AddBoolToObject(obj, k->name, *(const bool *)at); break;
        case KEY_TEXT: cJSON_AddStringToObject(obj, k->name, at); break;
        case KEY_CHOICE:
        case KEY_SIZE:
            word = word_of(k, *(const int *)at, buf, sizeof buf);
            if (word)
                cJSON_AddStringToObject(obj, k->name, word);
            else
                cJSON_AddNumberToObject(obj, k->name, *(const int *)at);
        }
    }
}

void schema_help(FILE *f, const ConfigKey *keys, const char *prefix) {
    char key[NAME_SIZE], allowed[TEXT_SIZE];
    for (const ConfigKey *k = keys; k->name; k++) {
        dotted(key, prefix, k->name);
        describe(k, allowed);
        fprintf(f, "  %-32s %s (%s; %s%s)\n", key, k->help, allowed,
                k->fallback ? "default " : "required", k->fallback ? k->fallback : "");
    }
}

bool schema_not_among(const char *where, const char *key, const char *got, const char *const *words,
                      Err *err) {
    char allowed[TEXT_SIZE] = "one of ", quoted[sizeof err->text];
    words_join(words, allowed);
    snprintf(quoted, sizeof quoted, "\"%s\"", got);
    return refuse(where, key, allowed, quoted, nearest_word(got, words), err);
}
