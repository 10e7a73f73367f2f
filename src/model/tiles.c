#include "model/tiles.h"

#include "core/lanes.h"

static int larger(int a, int b) { return a > b ? a : b; }

void tiles_layout(TileScratch *t, Arena *a, const Model *m) {
    const int embedded = fold_applies(m) ? 0 : m->conf.d_emb;
    const size_t wide = (size_t)larger(larger(m->conf.d_ff, embedded), m->conf.d) * TILE;
    for (int i = 0; i < 2; i++) t->wide[i] = arena_reals(a, wide);
    for (int i = 0; i < 2; i++) t->narrow[i] = arena_reals(a, TILE * (size_t)m->conf.d);
}

typedef struct Share {
    const Segment *segment;
    TileJob *job, *finish;
} Share;

static void call(TileJob *job, const Segment *segment, int tile, int thread) {
    job(segment, tile * TILE, attn_tile_rows(segment->doc->N, tile), &segment->t->tiles[thread]);
}

static void part_job(const void *ctx, int tile, int thread) {
    const Share *s = ctx;
    call(s->job, s->segment, tile, thread);
}

static void part_finish(const void *ctx, int tile, int thread) {
    const Share *s = ctx;
    call(s->finish, s->segment, tile, thread);
}

void tiles_share(const Segment *segment, TileJob *job, TileJob *finish) {
    lanes_share(attn_tiles(segment->doc->N), part_job, finish ? part_finish : NULL,
                &(Share){segment, job, finish});
}
