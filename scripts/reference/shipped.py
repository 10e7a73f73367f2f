#!/usr/bin/env python3
"""Holds `cast_step` in single precision against this PyTorch model in double on the shipped configs
of CAST: documents as long as they take, and shorter ones.

    shipped.py [--program build/release/cast_step] [CONFIG...]

Of so many tokens some are about equally near to a cluster, and rounding decides. So the model is
given the clusters that the program chose, and each choice is held to the model's affinities: how
much nearer is a token that was left out? Errors are as in parity.py. Exit status 1 if one is above
its bar.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import cases
import config as configuration
from cases import Case
from model import Clustering
from parity import FLOAT, ROOT, Failure, Inputs, must_run, step_errors, write_config
from step import load_model, read_batch, step

BAR = 5e-4  # on logits, loss and gradients
CHOICE_BAR = 1e-6  # on an affinity, of about heads / clusters


def lengths_of(longest: int, documents: int) -> list:
    if documents == 2:
        return [[longest, longest * 3 // 4]]
    return [longest] if longest > 10000 else [longest, longest * 3 // 8, 37]


def members_of(table: Tensor) -> list[list[Tensor]]:
    """Of each document, of I32 [B,C,k] or [B,2,C,k]."""
    rows = table.view(-1, *table.shape[-2:]).long()
    return [[tokens[tokens >= 0] for tokens in row] for row in rows]


def topk_error(made: Clustering) -> float:
    """How much nearer to a cluster a token is that it has not, than one that it has."""
    worst = 0.0
    for c, tokens in enumerate(made.members):
        outside = torch.ones(len(made.scores), dtype=torch.bool).index_fill(0, tokens, False)
        if len(tokens) != min(made.k, len(made.scores)) or len(tokens) != len(tokens.unique()):
            return torch.inf
        if outside.any():
            gap = made.scores[outside, c].max() - made.scores[tokens, c].min()
            worst = max(worst, gap.item())
    return worst


def sa_error(made: Clustering) -> float:
    """How much further down the order of choosing a cluster begins, somewhere, than a token that
    is nearer to it than to its own, and has found no place there; or than one without a cluster."""
    N, C = made.scores.shape
    own, best, worst = torch.full((N,), -1), made.scores.amax(1), 0.0
    for c, tokens in enumerate(made.members):
        if (own[tokens] >= 0).any() or len(tokens) > made.k:
            return torch.inf
        own[tokens] = c
    if int((own >= 0).sum()) != min(N, made.k * C):
        return torch.inf
    at_home = made.scores.gather(1, own.clamp(min=0)[:, None])[:, 0]
    at_home[own < 0] = -torch.inf
    for c, tokens in enumerate(made.members):
        gain = torch.minimum(made.scores[:, c] - at_home, best)
        if len(tokens) == made.k:
            gain = torch.minimum(gain, best - best[tokens].min())
        gain[tokens] = 0
        worst = max(worst, gain.max().item())
    return worst


def check(name: str, config: configuration.Config, program: Path, folder: Path) -> bool:
    case = Case(name, config, lengths_of(config.model.max_length, config.shape.documents))
    weights, batch = cases.draw(case, 0, torch.float32)
    write_config(case, folder)
    save_file(weights, folder / "weights")
    save_file(batch, folder / "batch")
    files = ["--weights", folder / "weights", "--batch", folder / "batch"]
    must_run(program, folder / "config.json", *files, "--out", folder / "out")
    actual = load_file(folder / "out")
    members = [members_of(actual[f"clusters.{i}"]) for i in range(config.model.depth)]
    model = load_model(config, weights)
    expected, output = step(model, read_batch(batch), members)
    error = max(step_errors(actual, Inputs(weights, batch, expected, False), model, FLOAT))
    choose = topk_error if config.model.attention.mechanism == "topk" else sa_error
    choice = max(choose(made) for block in output.clusterings for made in block)
    good = error.value <= BAR and choice <= CHOICE_BAR
    print(f"{'ok  ' if good else 'FAIL'} {name:16} {error.value:8.1e} / {BAR:.0e}", end="  ")
    print(f"{error.what:32} choices {choice:8.1e} / {CHOICE_BAR:.0e}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/cast_step")
    parser.add_argument("configs", nargs="*", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    program = args.program.resolve()
    count, paths = 0, args.configs or sorted((ROOT / "configs").glob("*.json"))
    for path in paths:
        with tempfile.TemporaryDirectory(prefix="shipped.") as folder:
            try:
                count += check(path.stem, configuration.load(path), program, Path(folder))
            except Failure as failure:
                print(f"FAIL {path.stem}: {failure}")
    print(f"{count} passed, {len(paths) - count} failed")
    return 0 if count == len(paths) else 1


if __name__ == "__main__":
    sys.exit(main())
