#include "train/config_schema.h"

#include "attention/attention.h"
#include "data/task.h"
#include "io/json_print.h"
#include "io/json_schema.h"
#include "model/model.h"
#include "train/config.h"

static const ConfigKey none[] = {{0}};

/* {"not": {"required": [key]}} */
static cJSON *without(const char *key) {
    cJSON *o = cJSON_CreateObject(), *inner = cJSON_AddObjectToObject(o, "not");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(inner, "required"), cJSON_CreateString(key));
    return o;
}

/* {"properties": {name: schema}} */
static cJSON *of_property(const char *name, cJSON *schema) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(cJSON_AddObjectToObject(o, "properties"), name, schema);
    return o;
}

static cJSON *if_then(cJSON *condition, cJSON *then) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "if", condition);
    cJSON_AddItemToObject(o, "then", then);
    return o;
}

/* ---- attention ---- */

static cJSON *type_property(void) {
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "enum");
    for (int i = 0; attn_table[i]; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(attn_table[i]->name));
    cJSON_AddStringToObject(o, "description", "attention mechanism");
    cJSON_AddStringToObject(o, "default", ATTN_DEFAULT);
    return o;
}

static cJSON *mechanism(const AttnMech *a) {
    cJSON *o = json_schema_object(a->keys ? a->keys : none);
    json_schema_property(o, "type", type_property());
    return o;
}

/* {"propertyNames": {"enum": []}}: the list. */
static cJSON *add_names(cJSON *o) {
    return cJSON_AddArrayToObject(cJSON_AddObjectToObject(o, "propertyNames"), "enum");
}

/* Where `type` is missing a base config may say it: then a key must be some mechanism's. */
static cJSON *attention(void) {
    cJSON *o = json_schema_object(none), *names = add_names(o);
    cJSON *all = cJSON_AddArrayToObject(o, "allOf");
    cJSON_DeleteItemFromObjectCaseSensitive(o, "additionalProperties");
    json_schema_property(o, "type", type_property());
    cJSON_AddItemToArray(names, cJSON_CreateString("type"));
    for (int i = 0; attn_table[i]; i++) json_schema_names(names, attn_table[i]->keys);
    for (int i = 0; attn_table[i]; i++)
        cJSON_AddItemToArray(
            all, json_schema_where("type", attn_table[i]->name, mechanism(attn_table[i])));
    return o;
}

static cJSON *default_attention(void) {
    cJSON *cast = if_then(without("type"), mechanism(attn_find(ATTN_DEFAULT)));
    return if_then(without("base"), of_property("model", of_property("attention", cast)));
}

/* ---- data ---- */

/* A task's own keys; without augmentation its settings say nothing. */
static cJSON *data_of(const Task *t) {
    cJSON *o = json_schema_object(config_data_keys(t));
    json_schema_add(o, t->augment_keys);
    return of_property("data", o);
}

/* Where the task is a base config's: a key must be some task's. */
static cJSON *data(void) {
    cJSON *o = json_schema_object(none), *names = add_names(o);
    cJSON_DeleteItemFromObjectCaseSensitive(o, "additionalProperties");
    for (int i = 0; task_table[i]; i++) {
        json_schema_names(names, config_data_keys(task_table[i]));
        json_schema_names(names, task_table[i]->augment_keys);
        if (task_table[i]->holds_out) json_schema_add(o, config_data_keys(task_table[i]));
    }
    return o;
}

/* ---- the whole ---- */

static cJSON *text_property(const char *description) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", "string");
    cJSON_AddStringToObject(o, "description", description);
    return o;
}

/* The task is said here or in a base. */
static void need_task(cJSON *root) {
    cJSON *any = cJSON_AddArrayToObject(root, "anyOf");
    static const char *const keys[] = {"task", "base"};
    for (int i = 0; i < 2; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "required"), cJSON_CreateString(keys[i]));
        cJSON_AddItemToArray(any, o);
    }
}

void config_schema_print(FILE *f) {
    cJSON *root = json_schema_object(config_root_keys());
    cJSON_AddStringToObject(root, "$schema", "https://json-schema.org/draft/2020-12/schema");
    cJSON_AddStringToObject(root, "title", "A config of cast_train");
    cJSON *model = json_schema_object(model_keys);
    json_schema_property(model, "attention", attention());
    json_schema_property(root, "$schema", text_property("where editors find this schema"));
    json_schema_property(root, "base",
                         text_property("a config that this one says what differs from; its path, "
                                       "from this file's folder"));
    json_schema_property(root, "data", data());
    json_schema_property(root, "model", model);
    json_schema_property(root, "train", json_schema_object(config_train_keys()));
    need_task(root);
    cJSON *all = cJSON_AddArrayToObject(root, "allOf");
    cJSON_AddItemToArray(all, default_attention());
    for (int i = 0; task_table[i]; i++)
        cJSON_AddItemToArray(
            all, json_schema_where("task", task_table[i]->name, data_of(task_table[i])));
    json_print(f, root);
    cJSON_Delete(root);
}
