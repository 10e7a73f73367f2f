/* What a config may say, as a JSON schema: from the same tables of keys that read it. */
#ifndef TRAIN_CONFIG_SCHEMA_H
#define TRAIN_CONFIG_SCHEMA_H

#include <stdio.h>

/* What several keys must be together (that heads divide d, say) it does not tell. */
void config_schema_print(FILE *f);

#endif
