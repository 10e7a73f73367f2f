/* FNV-1a, 64 bits: of bytes, and of those behind others. */
#ifndef CORE_HASH_H
#define CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t size);
uint64_t hash_more(uint64_t hash, const void *data, size_t size);

#endif
