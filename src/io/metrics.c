#include "io/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/real.h"
#include "io/file.h"
#include "io/json_print.h"
#include "io/read.h"
#include "io/text.h"

enum { DIGITS = sizeof(real) == 8 ? 17 : 9 }; /* enough to read the same number back */

static bool end_torn_line(int fd) {
    char last = '\n';
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && read_at(fd, &last, 1, size - 1) != 1) return false;
    return last == '\n' || file_append(fd, "\n", 1);
}

bool metrics_open(Metrics *m, const char *path, Err *err) {
    struct stat st;
    *m = (Metrics){.fd = -1};
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0 && errno == ELOOP)
        return err_set(err, EX_CANTCREAT,
                       "%s: is a link, which is not followed: lines would go to the end of another "
                       "file. Put that in its place, or use another --out",
                       path);
    if (fd < 0) return file_fails(path, "be written", EX_CANTCREAT, err);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, EX_CANTCREAT, "%s: is not a regular file", path);
    }
    if (!end_torn_line(fd)) {
        file_fails(path, "be written", EX_IOERR, err);
        close(fd);
        return false;
    }
    m->fd = fd;
    m->path = mem_strdup(path);
    m->line = text_stream(&m->text, &m->size);
    return true;
}

void metrics_close(Metrics *m) {
    if (m->fd < 0) return;
    fclose(m->line);
    free(m->text);
    mem_free(m->waiting);
    close(m->fd);
    mem_free(m->path);
    *m = (Metrics){.fd = -1};
}

void metrics_begin(Metrics *m) { rewind(m->line); }

static void print_key(Metrics *m, const char *key) {
    fputs(ftell(m->line) == 0 ? "{" : ", ", m->line);
    json_print_string(m->line, key);
    fputs(": ", m->line);
}

void metrics_int(Metrics *m, const char *key, long long value) {
    print_key(m, key);
    fprintf(m->line, "%lld", value);
}

void metrics_real(Metrics *m, const char *key, double value) {
    print_key(m, key);
    json_print_number(m->line, value, DIGITS);
}

void metrics_text(Metrics *m, const char *key, const char *value) {
    print_key(m, key);
    json_print_string(m->line, value);
}

bool metrics_end(Metrics *m, Err *err) {
    fputs(ftell(m->line) == 0 ? "{}\n" : "}\n", m->line);
    fflush(m->line);
    m->waiting = mem_reserve(m->waiting, m->nwaiting + m->size, &m->cap, 1);
    memcpy(m->waiting + m->nwaiting, m->text, m->size);
    m->nwaiting += m->size;
    return metrics_flush(m, err);
}

bool metrics_flush(Metrics *m, Err *err) {
    size_t at = 0;
    bool ok = true;
    while (ok && at < m->nwaiting) {
        const char *line = m->waiting + at, *end = memchr(line, '\n', m->nwaiting - at);
        const size_t n = (size_t)(end - line) + 1;
        ok = file_append(m->fd, line, n) || file_fails(m->path, "be written", EX_IOERR, err);
        if (ok) at += n;
    }
    m->nwaiting -= at;
    if (at > 0 && m->nwaiting > 0) memmove(m->waiting, m->waiting + at, m->nwaiting);
    return ok;
}

/* As good as the system can: a failure loses nothing as long as the power stays. */
void metrics_sync(const Metrics *m) { fdatasync(m->fd); }
