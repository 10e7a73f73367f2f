#define _GNU_SOURCE /* pipe2 */
#include "core/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/ranks.h"

/* Never returns. */
static void become(char *const *argv, int out) {
    ranks_leave();
    if (dup2(out, STDOUT_FILENO) >= 0) execv("/proc/self/exe", argv);
    fprintf(stderr, "%s: cannot be run: %s\n", argv[0], err_words(errno));
    _exit(EX_OSERR);
}

/* Sets *out to the end of what it prints; -1 and errno: there is none. */
static pid_t begin(char *const *argv, int *out) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1; /* a child that could read its own would never end */
    const pid_t pid = fork();
    if (pid == 0) become(argv, ends[1]);
    const int why = errno;
    close(ends[1]);
    if (pid < 0) close(ends[0]);
    *out = ends[0];
    errno = why;
    return pid;
}

/* All that comes until its end. False and errno, EFBIG where it is more; fd is closed. */
static bool read_all(int fd, char *text, size_t size, size_t *n) {
    FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return false;
    }
    *n = fread(text, 1, size, f);
    const bool more = fgetc(f) != EOF, ok = !more && !ferror(f);
    const int why = more ? EFBIG : errno;
    fclose(f);
    errno = why;
    return ok;
}

bool child_read(char *const *argv, char *text, size_t size, size_t *n, Err *err) {
    int out, status = 0;
    const pid_t pid = begin(argv, &out);
    const bool ok = pid > 0 && read_all(out, text, size, n);
    const int why = errno;
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        return err_set(err, EX_OSERR, "its end cannot be waited for: %s", err_words(errno));
    if (ok) return child_ended(status, err);
    return err_set(err, EX_OSERR, "%s: %s",
                   pid > 0 ? "what it prints cannot be read" : "there is no process for it",
                   err_words(why));
}

bool child_ended(int status, Err *err) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (WIFEXITED(status))
        return err_set(err, WEXITSTATUS(status), "ended with status %d, for the reason above",
                       WEXITSTATUS(status));
    return err_set(err, EX_SOFTWARE, "ended by signal %d (%s)%s", WTERMSIG(status),
                   strsignal(WTERMSIG(status)),
                   WTERMSIG(status) == SIGKILL ? "; out of memory?" : "");
}
