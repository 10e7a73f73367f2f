/* See cpu.h. The Makefile compiles this file alone without -march, and gives it CPU_MARCH,
 * CPU_FLAGS and CPU_FEATURES: the features that the compiler takes for granted in all others. */
#include "core/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#if defined __x86_64__ || defined __i386__
/* The names are the compiler's; only what it may use of itself in plain C matters here. */
static bool cpu_has(const char *feature) {
#define HAS(name) {name, __builtin_cpu_supports(name) != 0}
    __builtin_cpu_init();
    const struct {
        const char *name;
        bool has;
    } known[] = {
        /* clang-format off */
        HAS("sse3"), HAS("ssse3"), HAS("sse4.1"), HAS("sse4.2"), HAS("popcnt"), HAS("avx"),
        HAS("avx2"), HAS("fma"), HAS("fma4"), HAS("xop"), HAS("bmi"), HAS("bmi2"), HAS("gfni"),
        HAS("vpclmulqdq"), HAS("avx512f"), HAS("avx512vl"), HAS("avx512bw"), HAS("avx512dq"),
        HAS("avx512cd"), HAS("avx512ifma"), HAS("avx512vbmi"), HAS("avx512vbmi2"),
        HAS("avx512vnni"), HAS("avx512bitalg"), HAS("avx512vpopcntdq"), HAS("avx512bf16"),
#ifndef __clang__ /* clang 14 does not know these names */
        HAS("f16c"), HAS("lzcnt"), HAS("vaes"), HAS("avxvnni"), HAS("avx512fp16"),
#endif
        /* clang-format on */
    };
#undef HAS
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!strcmp(known[i].name, feature)) return known[i].has;
    }
    return true;
}
#else
static bool cpu_has(const char *feature) { return true; }
#endif

const char *cpu_lacks(const char *features, char *buf, size_t size) {
    while (*features) {
        size_t n = strcspn(features, " ");
        if (n > 0 && n < size) {
            memcpy(buf, features, n);
            buf[n] = '\0';
            if (!cpu_has(buf)) return buf;
        }
        features += n + strspn(features + n, " ");
    }
    return NULL;
}

__attribute__((constructor(101))) static void refuse_lesser_processor(void) {
    char buf[32];
    const char *feature = cpu_lacks(CPU_FEATURES, buf, sizeof buf);
    if (!feature) return;
    fprintf(stderr,
            "This program was built for processors with %s (MARCH=%s), which this one does not have"
            " (%s).\nBuild it here: make clean && make MARCH=native\n"
            "or for all processors: make clean && make MARCH=x86-64\n",
            feature, CPU_MARCH, cpu_describe());
    _exit(EX_OSERR);
}

const char *cpu_describe(void) {
    static char model[128];
    if (model[0]) return model;
    snprintf(model, sizeof model, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return model;
    char line[512];
    while (fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (!value || strncmp(line, "model name", 10) != 0) continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        if (*value) snprintf(model, sizeof model, "%.*s", (int)sizeof model - 1, value);
        break;
    }
    fclose(f);
    return model;
}

const char *cpu_build(void) {
#ifdef __clang__
    return "clang " __clang_version__ ": " CPU_FLAGS;
#else
    return "gcc " __VERSION__ ": " CPU_FLAGS;
#endif
}

const char *cpu_features(void) { return CPU_FEATURES; }
