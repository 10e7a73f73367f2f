/* The commit that the program was built from: "0123456789ab", with "-dirty" behind it where files
 * were changed; "" where that is not known, as without a repository, and in tests. */
#ifndef CORE_COMMIT_H
#define CORE_COMMIT_H

const char *commit_here(void);

#endif
