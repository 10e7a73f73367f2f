#include "core/stack.h"

#include <sys/resource.h>

/* The limit counts at the moment that the stack grows, so what is raised now is of use. */
bool stack_open(Err *err) {
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) != 0 || r.rlim_cur >= STACK_LEAST) return true;
    if (r.rlim_max >= STACK_LEAST) {
        r.rlim_cur = STACK_LEAST;
        if (setrlimit(RLIMIT_STACK, &r) == 0) return true;
    }
    return err_set(err, EX_OSERR, "a stack of at most %d kB (ulimit -s); %d kB are needed",
                   (int)(r.rlim_max >> 10), STACK_LEAST >> 10);
}
