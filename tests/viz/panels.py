"""Whether the pictures of cast_viz show what they say.

usage: panels.py DATA CLUSTERS AFFINITY MATRIX

DATA is a prepared split whose first document is a picture of 16 tokens, CLUSTERS and AFFINITY are what cast_viz drew of
it, MATRIX is what it draws of the same affinities where documents are texts; there a cls token comes first.
"""
import json
import struct
import sys
import zlib

SIDE, PIXEL, GAP, CAPTION = 4, 32, 16, 22
LEFT, CELL = 64, 16  # of the matrix


def unfiltered(kind, line, above):
    out = bytearray(line)
    for i, x in enumerate(line):
        a, b, c = (out[i - 3], above[i], above[i - 3]) if i > 2 else (0, above[i], 0)
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        out[i] = (x + (0, a, b, (a + b) // 2, paeth)[kind]) % 256
    return out


def read_png(path):
    with open(path, "rb") as f:
        data, at, body = f.read(), 8, b""
    width, height, bits, colours = struct.unpack(">IIBB", data[16:26])
    assert (bits, colours) == (8, 2), f"{path}: expected RGB"
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at : at + 8])
        body += data[at + 8 : at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    raw, row, rows = zlib.decompress(body), bytearray(3 * width), []
    for y in range(height):
        line = raw[y * (3 * width + 1) : (y + 1) * (3 * width + 1)]
        row = unfiltered(line[0], line[1:], row)
        rows.append([tuple(row[3 * x : 3 * x + 3]) for x in range(width)])
    return rows


def panel(image, number):
    """The colours of its tokens, each from the square's upper left."""
    wide, high = SIDE * PIXEL + GAP, SIDE * PIXEL + CAPTION + GAP
    columns = (len(image[0]) - GAP) // wide
    left, top = GAP + number % columns * wide, GAP + 2 * CAPTION + number // columns * high
    return [image[top + i // SIDE * PIXEL][left + i % SIDE * PIXEL] for i in range(SIDE * SIDE)]


def cluster(image, number):
    """Its row in the matrix, without cls."""
    return [image[GAP + CAPTION + number * CELL][LEFT + i * CELL] for i in range(1, SIDE * SIDE + 1)]


def first_tokens(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        f.seek(8 + size + header["tokens"]["data_offsets"][0])
        return f.read(SIDE * SIDE)


picture = [(grey, grey, grey) for grey in first_tokens(sys.argv[1])]
clusters, affinity, matrix = map(read_png, sys.argv[2:])
assert len(set(picture)) > 8
assert panel(clusters, 0) == picture, "the input beside clusters"
assert panel(affinity, 0) == picture, "the input beside affinities"
rows = [cluster(matrix, c) for c in range(4)]
assert all(len(set(row)) > 1 for row in rows) and rows[0] != rows[1]
for c in range(4):
    assert panel(affinity, c + 1) == rows[c], f"affinity to cluster {c}"
