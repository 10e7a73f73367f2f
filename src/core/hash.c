#include "core/hash.h"

uint64_t hash_bytes(const void *data, size_t size) {
    return hash_more(0xcbf29ce484222325u, data, size);
}

uint64_t hash_more(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}
