/* From 64-bit hashes to numbers of 0 and more: open addressing, at most half full. What is kept is
 * the hash alone, so two things that share one count as one: two of 50,000 papers do with a chance
 * of 1e-10, two of 100,000 expressions of 1e-9. */
#ifndef DATA_HASHMAP_H
#define DATA_HASHMAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct HashMap {
    struct HashSlot *slot;
    size_t slots, used;
} HashMap;

/* The number of a hash, -1 for one that is new: then the caller sets it. It is valid until the next
 * call on the same map. */
int *hashmap_at(HashMap *m, uint64_t hash);
void hashmap_free(HashMap *m);

#endif
