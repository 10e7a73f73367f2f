#include "train/override.h"

#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "core/log.h"
#include "core/nearest.h"
#include "io/json.h"

static const char *mechanism_of(const cJSON *root) {
    const char *type = json_string(root, "model.attention.type");
    return type ? type : ATTN_DEFAULT;
}

/* ---- setting ---- */

void override_drop_mechanism(cJSON *attention) {
    for (cJSON *item = attention ? attention->child : NULL, *next; item; item = next) {
        next = item->next;
        if (strcmp(item->string, "type") != 0)
            cJSON_Delete(cJSON_DetachItemViaPointer(attention, item));
    }
}

/* One mechanism's keys mean nothing to another: an override that changes it starts from the new
 * one's defaults, so that `CONFIG model.attention.type=full` is all that it takes. */
static bool change_mechanism(cJSON *root, const char *override, Err *err) {
    static const char key[] = "model.attention.type=";
    char was[64];
    if (strncmp(override, key, sizeof key - 1) != 0) return true;
    snprintf(was, sizeof was, "%s", mechanism_of(root));
    if (!json_override(root, override, err)) return false;
    if (strcmp(mechanism_of(root), was) == 0) return true;
    override_drop_mechanism(json_at(root, "model.attention"));
    return true;
}

static bool is_text(const Section *s, const char *override) {
    for (; s->name; s++) {
        const size_t n = strlen(s->name), key = strcspn(override, "=");
        char name[64];
        if (strncmp(override, s->name, n) != 0 || override[n] != '.') continue;
        snprintf(name, sizeof name, "%.*s", (int)(key - n - 1), override + n + 1);
        const ConfigKey *k = schema_find(s->keys, name);
        return k && k->type == KEY_TEXT;
    }
    return false;
}

/* A directory may be called 2024. */
static bool set(cJSON *root, const Section *sections, const char *override, Err *err) {
    const char *equals = strchr(override, '=');
    if (equals && strcspn(override, "=.") == 4 && !strncmp(override, "base", 4))
        return err_set(err, EX_USAGE,
                       "'%s': base is a key of a file; %s can stand in the place of CONFIG itself",
                       override, equals + 1);
    return is_text(sections, override) ? json_override_text(root, override, err)
                                       : json_override(root, override, err);
}

cJSON *override_value(const Section *sections, const char *assignment) {
    const char *value = strchr(assignment, '=') + 1;
    return is_text(sections, assignment) && *value != '"' ? cJSON_CreateString(value)
                                                          : json_value(value, JSON_MAX_DEPTH);
}

bool override_apply(cJSON *root, const Section *sections, char *const *overrides, int count,
                    Err *err) {
    for (int i = 0; i < count; i++)
        if (!change_mechanism(root, overrides[i], err)) return false;
    for (int i = 0; i < count; i++)
        if (!set(root, sections, overrides[i], err)) return false;
    return true;
}

bool override_concerns(const char *override, const char *mechanism) {
    static const char start[] = "model.attention.";
    char key[64];
    if (strncmp(override, start, sizeof start - 1) != 0) return true;
    override += sizeof start - 1;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(override, ".="), override);
    const AttnMech *m = attn_find(mechanism);
    return m && m->keys && schema_find(m->keys, key);
}

/* ---- blame ---- */

/* Whether an override sets the key, what it is part of, or a part of it. */
static bool sets(const char *override, const char *key) {
    const size_t n = strcspn(override, "="), k = strlen(key), less = n < k ? n : k;
    if (less == 0 || strncmp(override, key, less) != 0) return false;
    return n == k || (n < k ? key : override)[less] == '.';
}

/* "lr=1" means "train.lr=1", and "train.lr" is what stands behind a dot of it. */
enum { MOST_NAMES = 256 };
typedef struct Names {
    char full[MOST_NAMES][64];
    const char *last[MOST_NAMES + 1];
    int n;
} Names;

static const char *add_name(Names *names, const char *prefix, const char *name) {
    REQUIRE(names->n < MOST_NAMES, "more than %d keys", MOST_NAMES);
    char *full = names->full[names->n];
    const int at = snprintf(full, 64, "%s.", prefix);
    snprintf(full + at, 64 - (size_t)at, "%s", name);
    names->last[names->n++] = full + at;
    return full;
}

static void add_names(Names *names, const char *prefix, const ConfigKey *keys) {
    for (; keys && keys->name; keys++) add_name(names, prefix, keys->name);
}

/* The key that a name without a section stands for; NULL: none is `near`, or of that name. */
static const char *full_name(Names *names, const char *bare, bool near, const cJSON *config,
                             const Section *sections) {
    const AttnMech *mech = attn_find(mechanism_of(config));
    const bool own = mech && mech->keys && schema_find(mech->keys, bare);
    names->n = 0;
    for (const Section *s = sections; s->name && !own; s++) {
        const ConfigKey *usual = schema_usual(s->keys, bare);
        if (usual) return add_name(names, s->name, usual->name);
    }
    if (!strcmp(bare, "attention")) bare = "type";
    for (const Section *s = sections; s->name; s++) add_names(names, s->name, s->keys);
    add_name(names, "model.attention", "type");
    add_names(names, "model.attention", mech ? mech->keys : NULL);
    names->last[names->n] = NULL;
    const char *meant = near ? nearest_word(bare, names->last) : bare;
    for (int i = 0; meant && i < names->n; i++)
        if (strcmp(names->last[i], meant) == 0) return names->full[i];
    return NULL;
}

/* Which mechanisms have the key that the config's has not, in words; "": none. */
static void list_owners(const char *key, const cJSON *config, char *buf, size_t size) {
    static const char section[] = "model.attention.";
    const size_t n = sizeof section - 1;
    int owners = 0;
    *buf = '\0';
    for (int i = 0; attn_table[i] && !strncmp(key, section, n); i++) {
        if (!attn_table[i]->keys || !schema_find(attn_table[i]->keys, key + n)) continue;
        if (!owners++) format_add(buf, size, " to %s; those that have it: ", mechanism_of(config));
        format_add(buf, size, "%s%s", owners > 1 ? ", " : "", attn_table[i]->name);
    }
}

/* What an unknown key stands for that is one elsewhere: "lr" for train.lr, model.clusters for
 * model.attention.clusters, another mechanism's, or in a file a name with its section in it, before
 * a dot. Of a name in a section what is merely near elsewhere is not meant. */
static void find_elsewhere(const char *key, const cJSON *config, const Section *sections, char *buf,
                           size_t size) {
    const char *dot = strrchr(key, '.');
    Names names;
    const char *full = full_name(&names, dot ? dot + 1 : key, !dot, config, sections);
    if (!full)
        list_owners(key, config, buf, size);
    else if (strcmp(full, key) == 0)
        snprintf(buf, size, " as one name: sections are objects");
    else
        snprintf(buf, size, "; did you mean '%s'?", full);
}

static void suggest_elsewhere(Err *err, const cJSON *config, const Section *sections) {
    char unknown[sizeof err->key + 32], key[sizeof err->key], meant[256];
    snprintf(unknown, sizeof unknown, "key '%s' is unknown", err->key);
    const char *at = strstr(err->text, unknown);
    if (!err->key[0] || !at || strstr(at, "did you mean")) return;
    at += strlen(unknown);
    snprintf(key, sizeof key, "%s", err->key);
    find_elsewhere(key, config, sections, meant, sizeof meant);
    err_set(err, err->code, "%.*s%s%s", (int)(at - err->text), err->text, meant, at);
    err_blame(err, key);
}

void override_blame(Err *err, const char *where, const cJSON *config, const Section *sections,
                    char *const *overrides, int count) {
    char key[sizeof err->key], text[sizeof err->text];
    const size_t n = strlen(where);
    int i = 0;
    suggest_elsewhere(err, config, sections);
    snprintf(key, sizeof key, "%s", err->key);
    while (i < count && !(key[0] && sets(overrides[i], key))) i++;
    if (i == count || strncmp(err->text, where, n) != 0) return;
    snprintf(text, sizeof text, "%s", err->text + n);
    err_set(err, err->code, "on the command line%s", text);
    err_blame(err, key);
}
