#!/usr/bin/env python3
"""What the places of Pathfinder's two disks tell of the answer, the snakes unseen.

  places.py DIR             how many of DIR's val have the label that most of the nearest training pictures have, by the
                            places of their disks alone
  places.py DIR --even OUT  also writes OUT/val.safetensors and OUT/test.safetensors: DIR's, without so many pictures
                            whose places give the answer that places tell nothing any more; cast_eval RUN data.dir=OUT
                            then says how well a net follows snakes

DIR is a prepared set of 32 x 32 pixels, of which 1,000 train at least; OUT is a new directory. NumPy is needed.
"""
import argparse
import json
import os
import struct
import sys

import numpy as np

import prepared

SIDE = 32
NEAREST = 300
# What a disk at row 0, column 0 leaves at least in rows -1 to 1, columns -2 to 1.
DISK = np.array([[24, 198, 220, 115], [57, 221, 221, 165], [0, 114, 154, 48]], np.int16)


def read(directory, split):
    tokens, labels, _, metadata = prepared.read(directory, split, "pathfinder")
    if len(tokens) != len(labels) * SIDE ** 2:
        sys.exit(f"{directory}/{split}.safetensors: expected Pathfinder of {SIDE} x {SIDE} pixels")
    return tokens.reshape(-1, SIDE, SIDE), labels, metadata


def write(directory, split, pictures, labels, metadata):
    tensors = {"tokens": ("U8", pictures), "labels": ("I32", labels),
               "offsets": ("I64", np.arange(len(labels) + 1, dtype=np.int64) * SIDE ** 2)}
    header, body = {"__metadata__": metadata}, b""
    for name in ("offsets", "labels", "tokens"):
        dtype, values = tensors[name]
        data = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": [values.size], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    with open(f"{directory}/{split}.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + body)


def places(pictures):
    """[n,4]: row and column of the two disks, the one nearer to the middle first: it is likely to be a beginning."""
    padded = np.pad(pictures, ((0, 0), (1, 1), (2, 1))).astype(np.int16)
    lack = sum(np.maximum(DISK[y, x] - padded[:, y:y + SIDE, x:x + SIDE], 0) for y in range(3) for x in range(4))
    two = np.argsort(lack.reshape(len(lack), -1), axis=1, kind="stable")[:, :2]
    at = np.stack([two // SIDE, two % SIDE], axis=2)
    order = np.argsort(((at - (SIDE - 1) / 2) ** 2).sum(axis=2), axis=1, kind="stable")
    return np.take_along_axis(at, order[:, :, None], axis=1).reshape(-1, 4).astype(np.float32)


def every(n, size):
    return (slice(i, i + size) for i in range(0, n, size))


def all_places(pictures):
    return np.concatenate([places(pictures[part]) for part in every(len(pictures), 4000)])


def chance(known, labels, at):
    """Of each row of `at` how likely label 1 is: its share of the nearest known ones."""
    square, share, number = (known ** 2).sum(axis=1), [], np.arange(len(known))
    for part in every(len(at), 250):
        # Whole numbers, many of them the same: of these the earlier pictures are nearer, on every processor.
        distance = (square - 2 * at[part] @ known.T).astype(np.int64) * len(known) + number
        nearest = np.argpartition(distance, NEAREST, axis=1)[:, :NEAREST]
        share.append((labels[nearest].sum(axis=1) + 1) / (NEAREST + 2))
    return np.concatenate(share)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("--even", metavar="OUT")
    options = parser.parse_args()
    pictures, labels, _ = read(options.directory, "train")
    known = all_places(pictures)
    if len(known) < 1000:
        sys.exit(f"places.py: {options.directory}: {len(known)} pictures train, expected 1000 at least")
    asked = {split: read(options.directory, split) for split in (("val", "test") if options.even else ("val",))}
    if options.even:
        try:
            os.makedirs(options.even)
        except OSError as error:
            sys.exit(f"places.py: {options.even}: {error.strerror}; --even makes a new directory")
    for split, (shown, answers, metadata) in asked.items():
        likely = chance(known, labels, all_places(shown))
        print(f"{split}: {100 * np.mean((likely > 0.5) == answers):.1f} % of {len(answers)} by places alone", end="")
        if options.even:
            right = np.where(answers == 1, likely, 1 - likely)
            kept = np.random.default_rng(1).random(len(right)) < (1 - right) / right
            even = metadata | {"count": str(kept.sum()),
                               "source": "places that tell nothing, of " + metadata.get("source", options.directory)}
            for sum_of_all in ("hash", "crc32", "header_crc32"):
                even.pop(sum_of_all, None)
            write(options.even, split, shown[kept], answers[kept], even)
            print(f"; of {kept.sum()} kept {100 * np.mean((likely > 0.5) == answers, where=kept):.1f} %", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
