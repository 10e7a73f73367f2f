#!/usr/bin/env python3
"""Prints tests/streams.h: numbers of each random stream, for tests that hold the C code to them.

    streams.py | clang-format >tests/streams.h

It follows docs/method.md in plain Python, and shares nothing with the C code. Sizes, seeds and
examples are those of tests/train/test_streams.c, tests/data/test_image.c and
tests/data/test_pathfinder.c.
"""

import math
from collections.abc import Callable, Iterable

Key = tuple[int, int]
Rows = list[list[float]]

DRAW, NUMBER, NAME = 0, 1, 2  # the third word of the counter
WORD = 0xFFFFFFFF
SEED, HOLDOUT_SEED, IMPORT_SEED = 264, 5, 1  # the first: nothing stays as it was by chance
EPOCH, UPDATE = 1, 9  # an epoch has 6 updates, so that this is its third


def philox(key: Key, low: int, high: int, use: int) -> list[int]:
    c, (k0, k1) = [low, high, use, 0], key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & WORD, (p0 >> 32) ^ c[3] ^ k1, p0 & WORD]
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c


def fold(k: Key, *parts: str | int) -> Key:
    for part in parts:
        numbers = [part] if isinstance(part, int) else part.encode()
        use = NUMBER if isinstance(part, int) else NAME
        for number in numbers:
            w = philox(k, number & WORD, number >> 32, use)
            k = (w[0], w[1])
    return k


def key(seed: int, *parts: str | int) -> Key:
    return fold((seed & WORD, seed >> 32), *parts)


def draw(k: Key, i: int) -> list[int]:
    return philox(k, i & WORD, i >> 32, DRAW)


def unit(high: int, low: int) -> float:
    return ((high << 32 | low) >> 11) * 2.0**-53


def uniform(k: Key, i: int) -> float:
    return unit(*draw(k, i)[:2])


def normal(k: Key, i: int) -> float:
    w = draw(k, i)
    return math.sqrt(-2 * math.log(1 - unit(w[0], w[1]))) * math.cos(2 * math.pi * unit(w[2], w[3]))


def below(k: Key, i: int, n: int) -> int:
    w = draw(k, i)
    return (w[0] << 32 | w[1]) * n >> 64


def word(k: Key, i: int) -> int:
    return draw(k, i // 4)[i % 4]


def permutation(k: Key, n: int) -> list[int]:
    p = list(range(n))
    for i in range(n - 1, 0, -1):
        j = below(k, i, i + 1)
        p[i], p[j] = p[j], p[i]
    return p


# ---- initial values ----


def feature(k: Key, i: int) -> float:
    """Of heads of six rows of four."""
    head, row, column = i // 24, i % 24 // 4, i % 4
    return features(k, 6, 4, head)[row][column]


def features(k: Key, m: int, e: int, head: int) -> Rows:
    def drawn(name: str) -> Rows:
        own = fold(k, name)
        return [[normal(own, (head * m + r) * e + j) for j in range(e)] for r in range(m)]

    rows: Rows = []
    for r, (row, other) in enumerate(zip(drawn("directions"), drawn("lengths"))):
        for before in rows[r - r % e :]:
            along = dot(row, before) / dot(before, before)
            row = [x - along * y for x, y in zip(row, before)]
        scale = math.sqrt(dot(other, other) / dot(row, row))
        rows.append([x * scale for x in row])
    return rows


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y))


def smooth(k: Key, vocab: int, i: int, j: int) -> float:
    f, u = normal(fold(k, "frequencies"), j), uniform(fold(k, "phases"), j)
    return math.sqrt(2) * math.cos(8 * i * f / vocab + 2 * math.pi * u)


def initial() -> list[tuple[int, str, int, float]]:
    """Model, name, element, value. Widths of 8, two heads, three clusters, six features, 16 ids."""
    found = []

    def add(model: int, name: str, value: Callable[[Key, int], float], *elements: int) -> None:
        k = key(SEED, "init", name)
        found.extend((model, name, i, value(k, i)) for i in elements)

    def xavier(out: int, into: int) -> Callable[[Key, int], float]:
        return lambda k, i: math.sqrt(6 / (out + into)) * (2 * uniform(k, i) - 1)

    add(0, "tok.weight", normal, 0, 1, 127)
    add(0, "pos.weight", lambda k, i: 0.02 * normal(k, i), 0, 9)
    add(0, "blocks.0.attn.surrogate", lambda k, i: normal(k, i) / math.sqrt(4), 0, 23)
    add(0, "blocks.0.attn.phi.weight", xavier(1, 8), 0, 7)
    add(0, "blocks.1.attn.q.weight", xavier(8, 8), 0, 63)
    add(0, "fc2.weight", xavier(3, 8), 23)
    add(1, "tok.weight", lambda k, i: smooth(k, 16, i // 8, i % 8), 0, 1, 8, 127)
    add(1, "blocks.1.attn.features", feature, 0, 6, 15, 18, 24, 47)
    return found


# ---- what training sees ----


def order(examples: int, epoch: int) -> list[int]:
    return permutation(key(SEED, "order", epoch), examples)


def example() -> int:
    """That of the update, where training has six examples and a batch is one."""
    return order(6, EPOCH)[(UPDATE - 1) % 6]


def marks(hits: Iterable[bool]) -> str:
    return "".join("x" if hit else "." for hit in hits)


def is_dropped(document: int, place: int, layer: int, p: float, element: int) -> bool:
    k = key(SEED, "dropout", UPDATE, example(), document, place, layer)
    return word(k, element) < math.floor(p * 2**32)


def dropped_rows() -> list[str]:
    """After the embedding, of positions: of those that both documents have, what both drop."""

    def is_lost(row: int, column: int) -> bool:
        return all(is_dropped(d, 0, 0, 0.5, 8 * row + column) for d in documents_of(row))

    return [marks(is_lost(row, column) for column in range(8)) for row in range(3)]


def documents_of(row: int) -> list[int]:
    return [document for document, length in enumerate((1, 3)) if row < length]


def dropped_columns(place: int) -> list[str]:
    """Of each layer the columns that no token of either document keeps."""

    def is_lost(layer: int, column: int) -> bool:
        tokens = [(d, n) for d, length in enumerate((1, 3)) for n in range(length)]
        return all(is_dropped(d, place, layer, 0.8, 8 * n + column) for d, n in tokens)

    return [marks(is_lost(layer, column) for column in range(8)) for layer in range(2)]


def mask(k: Key, n: int, share: float) -> str:
    left, hits = max(1, math.floor(share * n + 0.5)), []
    for i in range(n):
        hits.append(below(k, i, n - i) < left)
        left -= hits[-1]
    return marks(hits)


def train_mask(number: int, document: int) -> str:
    return mask(key(SEED, "train", EPOCH, "mask", number, document), 10, 0.3)


def split_mask(split: str, number: int, document: int) -> str:
    return mask(key(SEED, split, "mask", number, document), 10, 0.3)


def held_out() -> list[int]:
    return sorted(permutation(key(HOLDOUT_SEED, "holdout"), 18)[: math.floor(18 * 0.25 + 0.5)])


def trained_on() -> list[int]:
    return [i for i in range(18) if i not in held_out()]


def text_examples() -> list[int]:
    """Those of the update, where five of 18 are held out and a batch is two."""
    rest, at = trained_on(), (UPDATE - 1) % 6 * 2
    return [rest[i] for i in order(len(rest), EPOCH)[at : at + 2]]


# ---- augmentation ----


def augment_key(document: int = 0) -> Key:
    return key(SEED, "augment", EPOCH, example(), document)


def shifted(side: int, shift: int) -> list[int]:
    """A picture whose pixels are 1, 2, ..."""
    k, ways = augment_key(), 2 * shift + 1
    picture = [[side * y + x + 1 for x in range(side)] for y in range(side)]
    if below(k, 0, 2):
        picture = [row[::-1] for row in picture]
    down, right = below(k, 1, ways) - shift, below(k, 2, ways) - shift

    def pixel(y: int, x: int) -> int:
        return picture[y][x] if 0 <= y < side and 0 <= x < side else 0

    return [pixel(y - down, x - right) for y in range(side) for x in range(side)]


def symmetric(side: int) -> list[int]:
    which = below(augment_key(), 0, 8)
    picture = [[side * y + x + 1 for x in range(side)] for y in range(side)]
    if which & 4:
        picture = [list(column) for column in zip(*picture)]
    if which & 1:
        picture = [row[::-1] for row in picture]
    if which & 2:
        picture = picture[::-1]
    return [pixel for row in picture for pixel in row]


def shuffled() -> list[int]:
    """Where each token of [MIN 1 2 [MAX 3 4 5 ] 6 ] comes from; the inner operator closes first."""
    k, words = augment_key(), 0

    def pick(arguments: list[list[int]]) -> list[int]:
        nonlocal words
        picked: list[int] = []
        while arguments:
            at = word(k, words) * len(arguments) >> 32
            words += 1
            picked += arguments[at]
            arguments[at] = arguments[-1]
            arguments.pop()
        return picked

    inner = [3] + pick([[4], [5], [6]]) + [7]
    return [0] + pick([[1], [2], inner, [8]]) + [9]


def lost_tokens(document: int) -> str:
    return marks(uniform(augment_key(document), i) < 0.4 for i in range(10))


# ---- cast_bench --approximation ----

WIDTH, HEADS, TOKENS, DOCUMENTS, BLOCKS = 8, 2, 5, 3, 2


def projected(k: Key, layer: int, p: int, x: list[float]) -> list[float]:
    own, scale = fold(k, 3 * layer + p + 1), 1 / math.sqrt(WIDTH)
    return [
        sum(scale * normal(own, out * WIDTH + i) * x[i] for i in range(WIDTH))
        for out in range(WIDTH)
    ]


def attend(q: list[float], keys: Rows, values: Rows) -> list[float]:
    scores = [math.exp(dot(q, row) / math.sqrt(len(q))) for row in keys]
    return [dot(scores, list(column)) / sum(scores) for column in zip(*values)]


def error_of_window(layer: int) -> float:
    """Of a token and its neighbours against all, over heads and documents."""
    k, e, wrong, whole = key(SEED, "approximate"), WIDTH // HEADS, 0.0, 0.0
    for document in range(DOCUMENTS):
        first = [(document * TOKENS + n) * WIDTH for n in range(TOKENS)]
        x = [[normal(k, at + j) for j in range(WIDTH)] for at in first]
        all_qkv = [[projected(k, layer, p, row) for row in x] for p in range(3)]
        for head in range(HEADS):
            q, keys, values = ([row[head * e : head * e + e] for row in rows] for rows in all_qkv)
            for n in range(TOKENS):
                seen = slice(max(0, n - 1), n + 2)
                exact, near = attend(q[n], keys, values), attend(q[n], keys[seen], values[seen])
                wrong += sum((a - b) ** 2 for a, b in zip(exact, near))
                whole += dot(exact, exact)
    return math.sqrt(wrong / whole)


# ---- the header ----


def array(kind: str, name: str, values: Iterable[object]) -> str:
    return f"static const {kind}{name}[] = {{{', '.join(map(str, values))}}};"


def ints(name: str, values: Iterable[int]) -> str:
    return array("int ", name, values)


def strings(name: str, values: Iterable[str]) -> str:
    return array("char *const ", name, (f'"{value}"' for value in values))


def of_parameters() -> list[str]:
    return [
        "/* Element i of a parameter of the test's model 0 or 1. */",
        "static const struct {int model; const char *name; int i; double value;}",
        "stream_initial[] = {",
        *(f'{{{m}, "{name}", {i}, {x!r}}},' for m, name, i, x in initial()),
        "};\n",
    ]


def of_training() -> list[str]:
    return [
        "/* The first five of 23 examples, in epochs 0 and 1; what validates of 18. */",
        ints("stream_order", order(23, 0)[:5] + order(23, 1)[:5]),
        ints("stream_held_out", held_out()),
        "\n/* x: dropped. What no token of either document keeps: by row of the positions; by "
        "layer, after attention and after the feed-forward layer. */",
        strings("stream_dropped_embedding", dropped_rows()),
        strings("stream_dropped_attention", dropped_columns(1)),
        strings("stream_dropped_ffn", dropped_columns(2)),
        "\n/* x: masked. Of two examples in training, of one that is evaluated, of one in "
        "validation and in test; of a pair in training and in test. */",
        strings("stream_mask_train", (train_mask(i, 0) for i in text_examples())),
        strings("stream_mask_evaluated", [split_mask("train", trained_on()[1], 0)]),
        strings("stream_mask_val", [split_mask("val", held_out()[1], 0)]),
        strings("stream_mask_test", [split_mask("test", 1, 0)]),
        strings("stream_mask_train_pair", (train_mask(example(), j) for j in range(2))),
        strings("stream_mask_test_pair", (split_mask("test", 1, j) for j in range(2))),
    ]


def of_augmentation() -> list[str]:
    return [
        "\n/* Pictures of 1, 2, ... after their augmentation; from where each token of "
        "[MIN 1 2 [MAX 3 4 5 ] 6 ] comes; x: the tokens that a pair loses. */",
        ints("stream_shifted", shifted(5, 2)),
        ints("stream_symmetric", symmetric(3)),
        ints("stream_shuffled", shuffled()),
        strings("stream_lost", (lost_tokens(j) for j in range(2))),
    ]


def of_approximation() -> list[str]:
    return [
        "\n/* The error of a window against exact attention on random numbers, by block. */",
        array("double ", "stream_approximation", map(error_of_window, range(BLOCKS))),
    ]


def of_imports() -> list[str]:
    image = permutation(key(IMPORT_SEED, "image.holdout"), 100)
    pathfinder = permutation(key(IMPORT_SEED, "pathfinder.split"), 40)
    return [
        "\n/* What validates of 100 images of CIFAR-10, and of 40 of Pathfinder; what tests of "
        "these. */",
        ints("stream_image_val", sorted(image[:10])),
        ints("stream_pathfinder_val", sorted(pathfinder[:4])),
        ints("stream_pathfinder_test", sorted(pathfinder[4:8])),
    ]


def main() -> None:
    print("/* What each random stream of docs/method.md gives, by code that shares nothing with")
    print(" * this: scripts/reference/streams.py | clang-format >tests/streams.h */")
    print("#ifndef TESTS_STREAMS_H\n#define TESTS_STREAMS_H\n")
    for part in (of_parameters, of_training, of_augmentation, of_approximation, of_imports):
        print(*part(), sep="\n")
    print("\n#endif")


if __name__ == "__main__":
    main()
