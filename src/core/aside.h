/* A job beside the lanes (core/lanes.h), on a thread of its own. */
#ifndef CORE_ASIDE_H
#define CORE_ASIDE_H

#include <stdbool.h>

/* Where the system gives no thread the job is done before aside_start returns. It uses no lanes. */
typedef struct Aside Aside;
Aside *aside_start(void (*job)(void *ctx), void *ctx);
/* Whether it is done; waits for that, but at most so many seconds. */
bool aside_done(const Aside *a, double seconds);
/* Waits for its end and frees it; NULL: there is none. */
void aside_end(Aside *a);

#endif
