/* Covers: src/io/npy.c */
#include "fuzz/fuzz.h"
#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[16];
    Err err;
    Npy a;
    if (!npy_open(&a, data, size, "fuzz.npy", &err)) return 0;
    for (int row = 0; a.columns > 0 && row < a.rows; row++)
        for (int column = 0; column < a.columns; column++)
            if (npy_text(&a, row, column, text, sizeof text))
                REQUIRE(strlen(text) <= a.length, "\"%s\" of %zu characters", text, a.length);
    return 0;
}
