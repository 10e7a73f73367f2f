#include "sweep/grid.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"
#include "core/option.h"
#include "io/json_print.h"
#include "io/text.h"
#include "train/config.h"
#include "train/override.h"

#define TYPE_KEY "model.attention.type"
enum { MOST_SEED = 2147483647, VALUE_SHOWN = 48, NAME_SHOWN = 200 };

/* ---- values ---- */

/* To be freed. */
static char *one_form(const char *assignment) {
    cJSON *v = config_value(assignment);
    char *text = json_text(v);
    cJSON_Delete(v);
    return text;
}

/* Adds the value, `size` bytes at `value`, unless it is there. */
static void add_value(GridKey *k, const char *value, size_t size) {
    char *assignment = text_format("%s=%.*s", k->key, (int)size, value);
    char *text = one_form(assignment);
    for (int i = 0; i < k->n; i++)
        if (!strcmp(text, k->text[i])) {
            mem_free(assignment);
            mem_free(text);
            return;
        }
    k->assignment = mem_grow(k->assignment, (size_t)k->n + 1, sizeof *k->assignment);
    k->text = mem_grow(k->text, (size_t)k->n + 1, sizeof *k->text);
    k->assignment[k->n] = assignment;
    k->text[k->n++] = text;
}

/* The length of the value that begins here, up to a comma outside of brackets and quotes; -1:
 * something is not closed. */
static int value_length(const char *at) {
    int i = 0, depth = 0;
    bool quoted = false;
    for (; at[i] && (quoted || depth > 0 || at[i] != ','); i++) {
        if (quoted && at[i] == '\\' && at[i + 1])
            i++;
        else if (at[i] == '"')
            quoted = !quoted;
        else if (!quoted && (at[i] == '[' || at[i] == '{'))
            depth++;
        else if (!quoted && (at[i] == ']' || at[i] == '}') && depth > 0)
            depth--;
    }
    return quoted || depth > 0 ? -1 : i;
}

static bool split(GridKey *k, const char *list, Err *err) {
    const char *at = list;
    for (;;) {
        const int n = value_length(at);
        if (n < 0)
            return err_set(err, EX_USAGE, "'%s=%s': a quote, bracket or brace is not closed",
                           k->key, list);
        /* A key may be set to nothing at all, as cast_train has it. */
        if (n == 0 && *list)
            return err_set(err, EX_USAGE,
                           "'%s=%s': one of the values is empty; \"\" is an empty text", k->key,
                           list);
        add_value(k, at, (size_t)n);
        if (!at[n]) return true;
        at += n + 1;
    }
}

/* ---- keys ---- */

/* Of a key that begins with this one: it is the same, or a key within what this one replaces. */
static bool refuse_key(const char *given, size_t size, Err *err) {
    return given[size]
               ? err_set(err, EX_USAGE,
                         "'%.*s' replaces '%s', which is given before it: give it first", (int)size,
                         given, given)
               : err_set(err, EX_USAGE, "'%s' is given twice; several values are written %s=v1,v2",
                         given, given);
}

static GridKey *add_key(Grid *g, const char *key, size_t size, Err *err) {
    for (int i = 0; i < g->nkeys; i++) {
        const char *given = g->keys[i].key;
        if (strncmp(given, key, size) != 0 || (given[size] && given[size] != '.')) continue;
        refuse_key(given, size, err);
        return NULL;
    }
    g->keys = mem_grow(g->keys, (size_t)g->nkeys + 1, sizeof *g->keys);
    GridKey *k = &g->keys[g->nkeys++];
    *k = (GridKey){.key = text_format("%.*s", (int)size, key)};
    return k;
}

static bool add_list(Grid *g, const char *list, Err *err) {
    const size_t n = strcspn(list, "=");
    if (!list[n] || n == 0)
        return err_set(err, EX_USAGE, "'%s': expected key=value or key=v1,v2,...", list);
    GridKey *k = add_key(g, list, n, err);
    if (!k || !split(k, list + n + 1, err)) return false;
    k->listed = k->named = k->n > 1;
    return true;
}

static bool read_seed(const char *text, int least, int *seed, Err *err) {
    return option_int("seeds", text, least, MOST_SEED, seed, err) ||
           err_set(err, err->code, "%s; seeds are written 1..5 or 1,3,9", err->text);
}

static bool add_range(GridKey *k, char *range, Err *err) {
    char *dots = strstr(range, "..");
    int from, to;
    if (dots) *dots = '\0';
    if (!read_seed(range, 0, &from, err)) return false;
    to = from;
    if (dots && !read_seed(dots + 2, from, &to, err)) return false;
    if (to - from >= GRID_MOST_RUNS || k->n > GRID_MOST_RUNS)
        return err_set(err, EX_USAGE, "--seeds: more than %d", GRID_MOST_RUNS);
    for (int64_t seed = from; seed <= to && k->n <= GRID_MOST_RUNS; seed++) {
        char text[16];
        const int n = snprintf(text, sizeof text, "%d", (int)seed);
        add_value(k, text, (size_t)n);
    }
    return true;
}

static bool add_seeds(Grid *g, const char *seeds, Err *err) {
    GridKey *k = add_key(g, SEED_KEY, strlen(SEED_KEY), err);
    if (!k) return err_set(err, EX_USAGE, "either --seeds or " SEED_KEY "=..., not both");
    char *copy = mem_strdup(seeds), *at = copy;
    bool ok = true;
    for (char *comma = at; ok && comma; at = comma + 1) {
        comma = strchr(at, ',');
        if (comma) *comma = '\0';
        ok = add_range(k, at, err);
    }
    mem_free(copy);
    g->seeded = k->listed = k->named = true;
    return ok;
}

/* ---- combinations ---- */

static int value_in(const Grid *g, int product, int key) {
    const int others = g->nkeys - g->seeded;
    int below = 1;
    for (int i = g->seeded && key == others ? 0 : key + 1; i < others; i++) below *= g->keys[i].n;
    return product / below % g->keys[key].n;
}

/* Whether the key is one of other mechanisms. What none of them has is misspelt: it stays, and is
 * told. */
static bool is_left_out(const Grid *g, int product, int key) {
    const char *name = g->keys[key].key;
    int type = 0;
    while (type < g->nkeys && strcmp(g->keys[type].key, TYPE_KEY) != 0) type++;
    if (type == g->nkeys || type == key) return false;
    const GridKey *types = &g->keys[type];
    if (override_concerns(name, types->text[value_in(g, product, type)])) return false;
    for (int i = 0; i < types->n; i++)
        if (override_concerns(name, types->text[i])) return true;
    return false;
}

/* Of combinations that differ in what is left out alone the first is a run. */
static bool is_run(const Grid *g, int product) {
    for (int i = 0; i < g->nkeys; i++)
        if (value_in(g, product, i) > 0 && is_left_out(g, product, i)) return false;
    return true;
}

static bool find_runs(Grid *g, Err *err) {
    int all = 1;
    for (int i = 0; i < g->nkeys; i++) {
        if (all > GRID_MOST_RUNS / g->keys[i].n)
            return err_set(err, EX_USAGE, "more than %d runs", GRID_MOST_RUNS);
        all *= g->keys[i].n;
    }
    g->product = mem_alloc((size_t)all, sizeof *g->product);
    for (int i = 0; i < all; i++)
        if (is_run(g, i)) g->product[g->runs++] = i;
    return true;
}

bool grid_open(Grid *g, char *const *lists, int count, const char *seeds, Err *err) {
    *g = (Grid){0};
    bool ok = true;
    for (int i = 0; ok && i < count; i++) ok = add_list(g, lists[i], err);
    if (ok && (!seeds || add_seeds(g, seeds, err)) && find_runs(g, err)) return true;
    grid_free(g);
    return false;
}

void grid_free(Grid *g) {
    for (int i = 0; i < g->nkeys; i++) {
        GridKey *k = &g->keys[i];
        for (int j = 0; j < k->n; j++) {
            mem_free(k->assignment[j]);
            mem_free(k->text[j]);
        }
        mem_free(k->assignment);
        mem_free(k->text);
        mem_free(k->key);
    }
    mem_free(g->keys);
    mem_free(g->product);
    *g = (Grid){0};
}

/* ---- runs ---- */

int grid_value(const Grid *g, int run, int key) {
    const int product = g->product[run];
    return is_left_out(g, product, key) ? -1 : value_in(g, product, key);
}

int grid_overrides(const Grid *g, int run, char **overrides) {
    int n = 0;
    for (int i = 0; i < g->nkeys; i++) {
        const int value = grid_value(g, run, i);
        if (value >= 0) overrides[n++] = g->keys[i].assignment[value];
    }
    return n;
}

int grid_plain(const Grid *g, char **overrides) {
    int n = 0;
    for (int i = 0; i < g->nkeys; i++)
        if (!g->keys[i].listed) overrides[n++] = g->keys[i].assignment[0];
    return n;
}

/* ---- names ---- */

void grid_name_key(Grid *g, const char *key) {
    for (int i = 0; i < g->nkeys; i++)
        if (!strcmp(g->keys[i].key, key)) g->keys[i].named = true;
}

static bool ends_with(const char *key, const char *end) {
    const size_t n = strlen(key), m = strlen(end);
    return text_ends(key, end) && (n == m || key[n - m - 1] == '.');
}

/* The shortest end of the key, from a dot on, that no other named key has. */
static const char *short_key(const Grid *g, int key) {
    const char *whole = g->keys[key].key, *end = whole + strlen(whole);
    while (end > whole) {
        for (end--; end > whole && end[-1] != '.'; end--) continue;
        bool alone = true;
        for (int i = 0; i < g->nkeys; i++)
            if (i != key && g->keys[i].named && ends_with(g->keys[i].key, end)) alone = false;
        if (alone) break;
    }
    return end;
}

static unsigned hash_of(const char *text) {
    return (unsigned)crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)strlen(text));
}

/* `text` in safe characters, at most VALUE_SHOWN of them; a hash behind where that is not all of
 * it.
 */
static void print_safe(char out[GRID_NAME_SIZE], const char *text) {
    int n = 0;
    bool same = true;
    for (; text[n] && n < VALUE_SHOWN; n++) {
        const unsigned char c = (unsigned char)text[n];
        const bool safe = c < 0x80 && (isalnum(c) || strchr("._+-", c));
        out[n] = safe ? (char)c : '_';
        same = same && safe;
    }
    out[n] = '\0';
    if (!same || text[n]) snprintf(out + n, GRID_NAME_SIZE - (size_t)n, "@%08x", hash_of(text));
}

void grid_name(const Grid *g, int run, char name[GRID_NAME_SIZE]) {
    char *whole = NULL;
    size_t size = 0;
    FILE *f = text_stream(&whole, &size);
    for (int i = 0, n = 0; i < g->nkeys; i++) {
        const GridKey *k = &g->keys[i];
        const int v = grid_value(g, run, i);
        char key[GRID_NAME_SIZE], value[GRID_NAME_SIZE];
        if (!k->named || v < 0) continue;
        print_safe(key, short_key(g, i));
        print_safe(value, k->text[v]);
        fprintf(f, "%s%s=%s", n++ ? "," : "", key, value);
    }
    fclose(f);
    if (size > NAME_SHOWN)
        snprintf(name, GRID_NAME_SIZE, "%.*s@%08x", NAME_SHOWN, whole, hash_of(whole));
    else
        snprintf(name, GRID_NAME_SIZE, "%s", size ? whole : "run");
    mem_free(whole);
}
