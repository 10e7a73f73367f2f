/* Tables of keys (io/schema.h) as a JSON schema, draft 2020-12, for editors and other programs. */
#ifndef IO_JSON_SCHEMA_H
#define IO_JSON_SCHEMA_H

#include "io/schema.h"

/* {"type": "object", "properties": {...}, "additionalProperties": false}: of these keys and no
 * other. */
cJSON *json_schema_object(const ConfigKey *keys);
/* Adds more of them. */
void json_schema_add(cJSON *object, const ConfigKey *keys);
/* A property that is described elsewhere. Takes over `schema`. */
void json_schema_property(cJSON *object, const char *name, cJSON *schema);

/* Adds the keys' names to a list that has each once, for "propertyNames". */
void json_schema_names(cJSON *list, const ConfigKey *keys);

/* {"if": {"properties": {KEY: {"const": VALUE}}, "required": [KEY]}, "then": schema}. Takes over
 * `schema`. */
cJSON *json_schema_where(const char *key, const char *value, cJSON *schema);

#endif
