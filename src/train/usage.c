#include "train/usage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/read.h"

/* "RssAnon:     1234 kB" in bytes. */
static double field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? 1024.0 * (double)strtoll(at + strlen(name), NULL, 10) : 0;
}

Usage usage_read(void) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return (Usage){0};
    ssize_t n = read_at(fd, text, sizeof text - 1, 0);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return (Usage){field(text, "RssAnon:"), field(text, "RssFile:") + field(text, "RssShmem:")};
}
