/* What each random stream of docs/method.md gives, by code that shares nothing with
 * this: scripts/reference/streams.py | clang-format >tests/streams.h */
#ifndef TESTS_STREAMS_H
#define TESTS_STREAMS_H

/* Element i of a parameter of the test's model 0 or 1. */
static const struct {
    int model;
    const char *name;
    int i;
    double value;
} stream_initial[] = {
    {0, "tok.weight", 0, -1.0924251244725875},
    {0, "tok.weight", 1, -2.9874699982703268},
    {0, "tok.weight", 127, -1.0261484778827314},
    {0, "pos.weight", 0, 0.007383351796767597},
    {0, "pos.weight", 9, -0.024319648372564184},
    {0, "blocks.0.attn.surrogate", 0, 0.19324437916677564},
    {0, "blocks.0.attn.surrogate", 23, -0.09534224678713615},
    {0, "blocks.0.attn.phi.weight", 0, -0.3560496430092169},
    {0, "blocks.0.attn.phi.weight", 7, 0.3279280057502277},
    {0, "blocks.1.attn.q.weight", 0, 0.5094672283141465},
    {0, "blocks.1.attn.q.weight", 63, -0.2690253942493502},
    {0, "fc2.weight", 23, -0.25129886267256973},
    {1, "tok.weight", 0, 0.8110992030843638},
    {1, "tok.weight", 1, 1.2482908368349015},
    {1, "tok.weight", 8, 0.34306874471734927},
    {1, "tok.weight", 127, -1.3341901251830586},
    {1, "blocks.1.attn.features", 0, -0.23165714499077686},
    {1, "blocks.1.attn.features", 6, 0.3908777786034258},
    {1, "blocks.1.attn.features", 15, -0.42926950123379515},
    {1, "blocks.1.attn.features", 18, 1.7442960588345695},
    {1, "blocks.1.attn.features", 24, 0.07799084938807403},
    {1, "blocks.1.attn.features", 47, 0.7631187856749165},
};

/* The first five of 23 examples, in epochs 0 and 1; what validates of 18. */
static const int stream_order[] = {0, 18, 17, 3, 2, 3, 14, 16, 8, 15};
static const int stream_held_out[] = {0, 2, 3, 12, 15};

/* x: dropped. What no token of either document keeps: by row of the positions; by layer, after
 * attention and after the feed-forward layer. */
static const char *const stream_dropped_embedding[] = {"..x.....", "...xxxxx", ".xxx.xx."};
static const char *const stream_dropped_attention[] = {"xx....x.", "xx...x.."};
static const char *const stream_dropped_ffn[] = {".x.x.xx.", ".xx..x.x"};

/* x: masked. Of two examples in training, of one that is evaluated, of one in validation and in
 * test; of a pair in training and in test. */
static const char *const stream_mask_train[] = {".x.....x.x", "...x..x.x."};
static const char *const stream_mask_evaluated[] = {".....x.x.x"};
static const char *const stream_mask_val[] = {".xxx......"};
static const char *const stream_mask_test[] = {"....xx...x"};
static const char *const stream_mask_train_pair[] = {"..x....x.x", "...x....xx"};
static const char *const stream_mask_test_pair[] = {"....xx...x", "x.xx......"};

/* Pictures of 1, 2, ... after their augmentation; from where each token of [MIN 1 2 [MAX 3 4 5 ] 6
 * ] comes; x: the tokens that a pair loses. */
static const int stream_shifted[] = {0, 0, 0, 0,  0, 0, 0, 0, 0,  0,  0,  5, 4,
                                     3, 2, 0, 10, 9, 8, 7, 0, 15, 14, 13, 12};
static const int stream_symmetric[] = {7, 4, 1, 8, 5, 2, 9, 6, 3};
static const int stream_shuffled[] = {0, 8, 3, 6, 4, 5, 7, 1, 2, 9};
static const char *const stream_lost[] = {"....xx...x", ".x.xx..x.."};

/* The error of a window against exact attention on random numbers, by block. */
static const double stream_approximation[] = {0.5325011594552465, 0.8942339626611717};

/* What validates of 100 images of CIFAR-10, and of 40 of Pathfinder; what tests of these. */
static const int stream_image_val[] = {0, 14, 32, 44, 71, 78, 79, 93, 96, 97};
static const int stream_pathfinder_val[] = {2, 4, 35, 36};
static const int stream_pathfinder_test[] = {11, 30, 31, 32};

#endif
