/* The data that runs were made with, as their env.json tells: runs of other data are no seeds of
 * one recipe, and tests on other examples are not compared. */
#ifndef REPORT_RUNDATA_H
#define REPORT_RUNDATA_H

#include "train/run.h"

/* Whether both tell of their data, and these are others: by the splits' hashes, or, where not both
 * have them, by where they come from and how many examples there are. A run that has gone on with
 * other data (cast_train --accept-data) has data of its own. */
bool rundata_differ(const Run *a, const Run *b);
/* The same of the test split alone, by its hash or its number of examples. */
bool rundata_tests_differ(const Run *a, const Run *b);
/* Whether its env.json tells of its data, as 0.1.0's did not. */
bool rundata_is_told(const Run *r);
/* Whether the splits' hashes are known, so that nothing hangs on where the data lie. */
bool rundata_is_hashed(const Run *r);
/* What tells a run's data from those of others, in a few words; to be freed. */
char *rundata_name(const Run *r);

#endif
