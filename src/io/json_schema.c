#include "io/json_schema.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/err.h"

/* ---- one key ---- */

static void add_range(cJSON *o, const ConfigKey *k) {
    const bool whole = k->type != KEY_REAL;
    if (k->min > (whole ? INT_MIN : -1e300)) cJSON_AddNumberToObject(o, "minimum", k->min);
    cJSON_AddNumberToObject(o, "maximum", whole ? fmin(k->max, INT_MAX) : k->max);
}

static void add_parity(cJSON *o, const char *parity) {
    const bool even = !strcmp(parity, KEY_EVEN);
    cJSON *of_even = even ? o : cJSON_AddObjectToObject(o, "not");
    cJSON_AddNumberToObject(of_even, "multipleOf", 2);
    if (!even) cJSON_AddNumberToObject(of_even, "minimum", 1);
}

static cJSON *number(const ConfigKey *k) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", k->type == KEY_REAL ? "number" : "integer");
    add_range(o, k);
    if (k->type == KEY_INT && k->choices) add_parity(o, k->choices);
    return o;
}

static cJSON *number_or_minus_1(const ConfigKey *k) {
    cJSON *o = cJSON_CreateObject(), *any = cJSON_AddArrayToObject(o, "anyOf");
    cJSON *minus = cJSON_CreateObject();
    cJSON_AddNumberToObject(minus, "const", -1);
    cJSON_AddItemToArray(any, number(k));
    cJSON_AddItemToArray(any, minus);
    return o;
}

static cJSON *words(const ConfigKey *k) {
    char word[64];
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "enum");
    const char *next;
    for (int i = 0; k->choice && (next = k->choice(i)); i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(next));
    for (next = k->choice ? "" : k->choices; *(next += strspn(next, " "));) {
        const size_t n = strcspn(next, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, next);
        cJSON_AddItemToArray(list, cJSON_CreateString(word));
        next += n;
    }
    return o;
}

static cJSON *value(const ConfigKey *k) {
    cJSON *o = cJSON_CreateObject(), *any;
    switch (k->type) {
    case KEY_INT: cJSON_Delete(o); return number(k);
    case KEY_REAL: cJSON_Delete(o); return k->choices ? number_or_minus_1(k) : number(k);
    case KEY_CHOICE: cJSON_Delete(o); return words(k);
    case KEY_BOOL: cJSON_AddStringToObject(o, "type", "boolean"); break;
    case KEY_TEXT:
        cJSON_AddStringToObject(o, "type", "string");
        cJSON_AddNumberToObject(o, "maxLength", KEY_TEXT_MAX - 1);
        break;
    case KEY_SIZE:
        any = cJSON_AddArrayToObject(o, "anyOf");
        cJSON_AddItemToArray(any, number(k));
        cJSON_AddItemToArray(any, words(k));
    }
    return o;
}

static cJSON *property(const ConfigKey *k) {
    cJSON *o = value(k);
    cJSON_AddStringToObject(o, "description", k->help);
    if (k->fallback) cJSON_AddItemToObject(o, "default", cJSON_Parse(k->fallback));
    return o;
}

/* ---- objects ---- */

cJSON *json_schema_object(const ConfigKey *keys) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", "object");
    cJSON_AddObjectToObject(o, "properties");
    cJSON_AddBoolToObject(o, "additionalProperties", false);
    json_schema_add(o, keys);
    return o;
}

void json_schema_property(cJSON *object, const char *name, cJSON *schema) {
    cJSON_AddItemToObject(cJSON_GetObjectItemCaseSensitive(object, "properties"), name, schema);
}

void json_schema_add(cJSON *object, const ConfigKey *keys) {
    for (const ConfigKey *k = keys; k && k->name; k++)
        json_schema_property(object, k->name, property(k));
}

static bool holds(const cJSON *list, const char *name) {
    for (const cJSON *item = list->child; item; item = item->next)
        if (!strcmp(item->valuestring, name)) return true;
    return false;
}

void json_schema_names(cJSON *list, const ConfigKey *keys) {
    for (const ConfigKey *k = keys; k && k->name; k++)
        if (!holds(list, k->name)) cJSON_AddItemToArray(list, cJSON_CreateString(k->name));
}

cJSON *json_schema_where(const char *key, const char *value, cJSON *schema) {
    cJSON *o = cJSON_CreateObject(), *condition = cJSON_AddObjectToObject(o, "if");
    cJSON *is = cJSON_CreateObject(),
          *properties = cJSON_AddObjectToObject(condition, "properties");
    cJSON_AddStringToObject(is, "const", value);
    cJSON_AddItemToObject(properties, key, is);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(condition, "required"), cJSON_CreateString(key));
    cJSON_AddItemToObject(o, "then", schema);
    return o;
}
