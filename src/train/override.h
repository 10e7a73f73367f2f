/* What the command line says of a config: "key=value". */
#ifndef TRAIN_OVERRIDE_H
#define TRAIN_OVERRIDE_H

#include <cjson/cJSON.h>

#include "core/err.h"
#include "io/schema.h"

/* A section of the config; a list of them ends with a NULL name. Of model.attention, whose keys are
 * the mechanism's, there is none. */
typedef struct Section {
    const char *name;
    const ConfigKey *keys;
} Section;

/* Sets the keys in `root`, in their order. One that changes the mechanism drops the other keys of
 * model.attention first. EX_USAGE and EX_CONFIG: as json_override; EX_USAGE too of
 * `base`, which a file alone can have. */
bool override_apply(cJSON *root, const Section *sections, char *const *overrides, int count,
                    Err *err);

/* Whether an override, "key=value" or the key alone, is none of a key of mechanisms, or of one that
 * this mechanism has. */
bool override_concerns(const char *override, const char *mechanism);

/* The value of "key=value" as it sets it: of a key that is a text the text, whatever it looks like.
 * To be deleted. */
cJSON *override_value(const Section *sections, const char *assignment);

/* Of an error in a key: says which key an unknown one stands for that is not where it should be
 * ("lr", "model.clusters"), and of one that was set there, which is not in the file `where`, so. */
void override_blame(Err *err, const char *where, const cJSON *config, const Section *sections,
                    char *const *overrides, int count);

/* Leaves only the type of a section model.attention: the other keys are the mechanism's. */
void override_drop_mechanism(cJSON *attention);

#endif
