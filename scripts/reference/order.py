#!/usr/bin/env python3
"""Writes the order in which `cast_train` takes its training samples, for loss_curve.py.

    order.py CONFIG [key=value ...] --data DIR --out FILE.safetensors [--steps n]

FILE holds `order` I32 [updates, batch * accumulate], and `epoch` I64 [1], the updates of one. Epoch e is a Fisher-Yates permutation drawn
from Philox4x32-10 (Salmon et al. 2011) under a key folded from train.seed, the word "order" and e;
an epoch's rest that does not fill an update is left out. Written from src/core/rng.h alone.

Where data.holdout is above 0, as it is by default on text, the first of a permutation keyed by
data.holdout_seed and "holdout" are left out, and the order is of those that remain.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import config as configuration

DRAW, FOLD, NAME = 0, 1, 2  # the third word of the counter: what a key is used for
MASK = np.uint64(0xFFFFFFFF)


def philox(i: np.ndarray, use: int, key: tuple[int, int]) -> list[np.ndarray]:
    """Four words for every counter (low word of i, high word of i, use, 0)."""
    i = np.asarray(i, np.uint64)
    c = [i & MASK, i >> np.uint64(32), np.full_like(i, use), np.zeros_like(i)]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & MASK,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & MASK,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def fold(key: tuple[int, int], value: int, use: int = FOLD) -> tuple[int, int]:
    words = philox(np.array([value]), use, key)
    return int(words[0][0]), int(words[1][0])


def permutation(seed: int, name: str, folded: list[int], samples: int) -> np.ndarray:
    key = (seed & 0xFFFFFFFF, seed >> 32)
    for letter in name.encode():
        key = fold(key, letter, NAME)
    for value in folded:
        key = fold(key, value)
    words = philox(np.arange(samples), DRAW, key)
    order = np.arange(samples, dtype=np.int32)
    for i in range(samples - 1, 0, -1):
        u = int(words[0][i]) << 32 | int(words[1][i])
        j = u * (i + 1) >> 64
        order[i], order[j] = order[j], order[i]
    return order


def trained_on(samples: int, holdout: float, seed: int) -> np.ndarray:
    """The samples that are not held out, in the file's order."""
    held = int(samples * holdout + 0.5)
    return np.sort(permutation(seed, "holdout", [], samples)[held:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--data", type=Path, required=True, help="holds train.safetensors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, help="updates; default one epoch")
    args = parser.parse_intermixed_args()
    config = configuration.read(args.config, args.overrides)
    data, train = config.get("data", {}), configuration.from_json(config).train
    holdout = data.get("holdout", 0.1) if config["task"] == "text" else 0.0
    with safe_open(args.data / "train.safetensors", "pt") as file:
        samples = file.get_slice("labels").get_shape()[0]
    index = trained_on(samples, holdout, data.get("holdout_seed", 1))
    size = train.batch * train.accumulate
    an_epoch = len(index) // size
    steps = args.steps or an_epoch
    epochs = -(-steps // an_epoch)
    orders = [
        index[permutation(train.seed, "order", [e], len(index))[: an_epoch * size]]
        for e in range(epochs)
    ]
    order = torch.from_numpy(np.concatenate(orders)[: steps * size].reshape(steps, size))
    save_file({"order": order, "epoch": torch.tensor([an_epoch])}, args.out)


if __name__ == "__main__":
    main()
