#include "attention/attention.h"

#include <string.h>

const AttnMech *const attn_table[] = {
    &attn_cast,        &attn_full,    &attn_naive, &attn_local,     &attn_clustered,
    &attn_i_clustered, &attn_lsh,     &attn_smyrf, &attn_performer, &attn_linear,
    &attn_linformer,   &attn_nystrom, NULL};

const char *const attn_projection_names[ATTN_PROJECTIONS] = {"q", "key", "v", "o"};

const AttnMech *attn_find(const char *name) {
    for (int i = 0; attn_table[i]; i++)
        if (!strcmp(attn_table[i]->name, name)) return attn_table[i];
    return NULL;
}

bool attn_configure(const AttnMech *m, void *self, const AttnShape *shape, const char *where,
                    Err *err) {
    *(AttnShape *)self = *shape;
    return !m->check || m->check(self, where, err);
}

/* A sum of well mixed numbers (the finaliser of MurmurHash3, Appleby) does not know their order. */
void attn_trace_choice(AttnTrace *trace, int where, int what) {
    uint64_t x = (uint64_t)(uint32_t)where << 32 | (uint32_t)what;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    trace->digest += x ^ x >> 33;
}

uint64_t *attn_trace_seen(const AttnTrace *trace, int head, int query) {
    const size_t stride = (size_t)trace->stride, row = (size_t)head * stride + (size_t)query;
    return trace->seen + row * ((stride + 63) / 64);
}

void attn_trace_sees(AttnTrace *trace, int head, int query, int key) {
    attn_trace_seen(trace, head, query)[key / 64] |= (uint64_t)1 << key % 64;
}
