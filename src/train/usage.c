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

static void read_status(char *text, size_t size) {
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read_at(fd, text, size - 1, 0);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
}

/* Not getrusage's, which has in it what the process was before exec. */
double usage_peak(void) {
    char text[4096];
    read_status(text, sizeof text);
    return field(text, "VmHWM:");
}

Usage usage_read(void) {
    char text[4096];
    read_status(text, sizeof text);
    return (Usage){field(text, "RssAnon:"), field(text, "RssFile:") + field(text, "RssShmem:")};
}
