#!/usr/bin/env python3
"""Writes golden vectors, so that the C code can be held to this model where there is no PyTorch.

    golden.py [--out tests/golden] [--check]

Per case a folder with config.json, weights.safetensors, batch.safetensors (the inputs of
`cast_step`) and expected.safetensors, all in double: `logits`, `loss`, `grad.<parameter>`,
`clusters.<block>` (I32, -1 in empty slots). Where the metadata has `steps`, also what that many
updates on the batch lead to: `after.<parameter>`, and these weights' `after.logits`, `after.loss`.
`--check` recomputes what the folder holds, and writes nothing.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import cases
import config as configuration
from cases import PAIRS, SINGLE, Case, case
from config import Config
from step import load_model, read_batch, step, train, weights_of

Tensors = dict[str, Tensor]

ROOT = Path(__file__).resolve().parents[2]
MARGIN = 1e-3  # between cluster scores: no summation order may change a golden cluster
UPDATES = {"updates": 50, "steps": 60, "lr": 1e-2, "weight_decay": 0.1, "clip": 1.0, "warmup": 5}

GOLDEN = {
    "topk_softmax_layer": {"schedule": "cosine", **UPDATES},
    "sa_softmax_scale_post": {"mechanism": "sa_topk", "norm": "scale", "pre_norm": False},
    "topk_laplace_batch": {"attention_fn": "laplace", "norm": "batch"},
    "sa_laplace_batch_post_pair": {
        "mechanism": "sa_topk",
        "attention_fn": "laplace",
        "norm": "batch",
        "pre_norm": False,
        "lengths": PAIRS,
        "schedule": "linear",
        **UPDATES,
    },
    "topk_softmax_scale_pair": {"norm": "scale", "lengths": PAIRS},
    "sa_cls_sinusoidal": {"mechanism": "sa_topk", "pooling": "cls", "positions": "sinusoidal"},
    "topk_no_summaries": {"summaries": False},
    "topk_no_intra_frozen": {"intra": False, "surrogates": "frozen"},
    "sa_laplace_leftover": {"mechanism": "sa_topk", "attention_fn": "laplace", "cluster_size": 3},
    "sa_empty_clusters": {"mechanism": "sa_topk", "cluster_size": 30, "pre_norm": False},
    "topk_length_no_proj": {"cluster_size": "length", "d_emb": 8, "norm": "batch"},
    "topk_ties": {"ties": True, "heads": 4, "d": 16},
    "full": {"type": "full", "schedule": "rsqrt", **UPDATES},
}


def expected_of(config: Config, weights: Tensors, batch: Tensors, updates: int) -> Tensors:
    model = load_model(config, weights)
    result, _ = step(model, read_batch(batch))
    if updates:
        train(model, read_batch(batch), updates)
        after = weights_of(model)
        final, _ = step(model, read_batch(batch))
        after |= {name: final[name] for name in ("logits", "loss")}
        result |= {f"after.{name}": tensor for name, tensor in after.items()}
    return result


def decided(golden: Case) -> tuple[Tensors, Tensors]:
    for attempt in range(10000):
        weights, batch = cases.draw(golden, attempt, torch.float64)
        output = load_model(golden.config, weights)(read_batch(batch).documents)
        if golden.ties or cases.least_margin(output, golden.config) > MARGIN:
            return weights, batch
    raise SystemExit(f"golden.py: {golden.name}: no inputs with a margin of {MARGIN}")


def write(golden: Case, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights, batch = decided(golden)
    config = {"data": {"dir": f"data/{golden.config.task}"}} | golden.config.to_json()
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(weights, folder / "weights.safetensors")
    save_file(batch, folder / "batch.safetensors")
    expected = expected_of(golden.config, weights, batch, golden.updates)
    metadata = {"steps": str(golden.updates)} if golden.updates else None
    save_file(expected, folder / "expected.safetensors", metadata)


def is_near(x: Tensor, y: Tensor) -> bool:
    """By the largest element, as parity.py has it: AdamW makes whole steps of gradients that are zero
    but for rounding, which is another on another processor."""
    return bool((x - y).abs().max() <= 1e-9 * y.abs().max() + 1e-12)


def check(folder: Path) -> bool:
    config = configuration.load(folder / "config.json")
    weights, batch = (load_file(folder / f"{name}.safetensors") for name in ("weights", "batch"))
    with safe_open(folder / "expected.safetensors", "pt") as file:
        updates = int((file.metadata() or {}).get("steps", 0))
    stored = load_file(folder / "expected.safetensors")
    expected = expected_of(config, weights, batch, updates)
    return stored.keys() == expected.keys() and all(
        is_near(stored[n].double(), w.double()) for n, w in expected.items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for name, keys in GOLDEN.items():
        folder = args.out / name
        if args.check:
            good = check(folder)
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {name}")
        else:
            write(case(name, **({"lengths": SINGLE} | keys)), folder)
            size = sum(file.stat().st_size for file in folder.iterdir())
            print(f"{folder}: {size} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
