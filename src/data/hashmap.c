#include "data/hashmap.h"

#include "core/mem.h"

/* A hash of 0 marks an empty one. */
typedef struct HashSlot {
    uint64_t hash;
    int number;
} HashSlot;

static HashSlot *find(const HashMap *m, uint64_t hash) {
    size_t i = (size_t)hash & (m->slots - 1);
    while (m->slot[i].hash != 0 && m->slot[i].hash != hash) i = (i + 1) & (m->slots - 1);
    return &m->slot[i];
}

static void grow(HashMap *m) {
    HashMap bigger = {.slots = m->slots ? 2 * m->slots : 1024, .used = m->used};
    bigger.slot = mem_alloc(bigger.slots, sizeof *bigger.slot);
    for (size_t i = 0; i < m->slots; i++)
        if (m->slot[i].hash != 0) *find(&bigger, m->slot[i].hash) = m->slot[i];
    mem_free(m->slot);
    *m = bigger;
}

int *hashmap_at(HashMap *m, uint64_t hash) {
    if (2 * m->used >= m->slots) grow(m);
    HashSlot *s = find(m, hash ? hash : 1);
    if (s->hash == 0) {
        *s = (HashSlot){hash ? hash : 1, -1};
        m->used++;
    }
    return &s->number;
}

void hashmap_free(HashMap *m) {
    mem_free(m->slot);
    *m = (HashMap){0};
}
