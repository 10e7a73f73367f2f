#!/usr/bin/env python3
"""`cast_step` in PyTorch: one forward and backward in the open, by the same file contract.

    step.py CONFIG --weights W --batch B --out O [--steps n --weights-out V]
    step.py CONFIG --init SEED --weights-out V

Batch: `tokens` I32 [B,N] ([B,2,N] for pairs), `lengths` I32 [B] ([B,2]), `labels` I32 [B]; in masked
training `mask` and `targets` I32, in the shape of tokens, instead of labels.
Output: `logits` [B,classes] (of masked tokens [B,N,vocab], [B,2,N,vocab], 0 elsewhere), `loss` [1],
`grad.<parameter>`, `clusters.<block>` I32 [B,C,k] ([B,2,C,k]), -1 in empty slots; of mechanisms that
group tokens in each head `groups.<block>` and `groups_key.<block>` I32 [B,h,rounds,N]
([B,2,h,rounds,N]), -1 beyond a document. It computes and writes F64, or F32 with `--float`.
"""

import argparse
from typing import NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

import config as configuration
from config import Config
from mechanisms import Choice
from model import MASKED, Clustering, Model, Output, cluster_size
from optim import AdamW

Tensors = dict[str, Tensor]


class Batch(NamedTuple):
    documents: list[Tensor]  # token ids at their true lengths; of pairs, both in turn
    labels: Tensor  # [B], or what stood at the masked tokens of all documents
    masked: Tensor | None = None  # bool, in the shape of the file's tokens


def read_batch(tensors: Tensors) -> Batch:
    """Cuts the padded rows of a batch file to their lengths; what lies beyond is never read."""
    tokens = tensors["tokens"].long()
    rows = tokens.view(-1, tokens.shape[-1])
    lengths = tensors["lengths"].view(-1).tolist()
    if not all(1 <= length <= rows.shape[1] for length in lengths):
        raise ValueError(f"lengths {lengths}: each must be 1 to {rows.shape[1]}")
    masked = None
    labels = tensors.get("labels")
    if "mask" in tensors:
        inside = torch.arange(rows.shape[1]) < torch.tensor(lengths)[:, None]
        masked = (tensors["mask"] == 1) & inside.view(tokens.shape)
        labels = tensors["targets"][masked]
        rows = rows.masked_fill(masked.view(rows.shape), MASKED)
    documents = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    return Batch(documents, labels.long(), masked)


def load_model(config: Config, weights: Tensors, dtype: torch.dtype = torch.float64) -> Model:
    model = Model(config).to(dtype)
    model.load_state_dict({name: w.to(dtype) for name, w in weights.items()})
    return model.train()


def weights_of(model: Model) -> Tensors:
    return {name: w.detach().clone().contiguous() for name, w in model.state_dict().items()}


def forward_loss(model: Model, batch: Batch, members: list | None = None) -> tuple[Output, Tensor]:
    output = model(batch.documents, members)
    smoothing = model.config.train.label_smoothing
    return output, F.cross_entropy(output.logits, batch.labels, label_smoothing=smoothing)


def spread(logits: Tensor, batch: Batch) -> Tensor:
    """Those of masked tokens to the tokens' places."""
    if batch.masked is None:
        return logits
    table = logits.new_zeros(*batch.masked.shape, logits.shape[-1])
    table[batch.masked] = logits
    return table


def cluster_table(clusterings: list[Clustering], config: Config) -> Tensor:
    """One block's clusters of all documents as I32 [B,C,k] or [B,2,C,k], padded with -1; k is that of
    the longest document that the model reads."""
    C, documents, model = len(clusterings[0].members), config.shape.documents, config.model
    k = cluster_size(model, model.max_length + (model.pooling == "cls"))
    table = torch.full((len(clusterings), C, k), -1, dtype=torch.int32)
    for row, clustering in zip(table, clusterings, strict=True):
        for c, tokens in enumerate(clustering.members):
            row[c, : len(tokens)] = tokens
    return table.view(-1, documents, C, k) if documents == 2 else table


def group_table(groups: list[Tensor], documents: int) -> Tensor:
    """One block's groups [rounds,h,N] of all documents as I32 [B,h,rounds,N] or [B,2,h,rounds,N]."""
    rounds, h, _ = groups[0].shape
    longest = max(group.shape[-1] for group in groups)
    table = torch.full((len(groups), h, rounds, longest), -1, dtype=torch.int32)
    for row, group in zip(table, groups, strict=True):
        row[..., : group.shape[-1]] = group.transpose(0, 1)
    return table.view(-1, documents, *table.shape[1:]) if documents == 2 else table


def choice_tables(choices: list[Clustering | Choice | None], config: Config) -> Tensors:
    """What one block chose, by the names of the file's tensors."""
    if isinstance(choices[0], Clustering):
        return {"clusters": cluster_table(choices, config)}
    tables = {}
    for name in ("groups", "groups_key"):
        groups = [getattr(choice, name, None) for choice in choices]
        if groups[0] is not None:
            tables[name] = group_table(groups, config.shape.documents)
    return tables


def step(model: Model, batch: Batch, members: list | None = None) -> tuple[Tensors, Output]:
    """Forward and backward; the output file's tensors, and the forward pass's output. `members`
    imposes clusterings, as in Model.forward."""
    model.zero_grad()
    output, loss = forward_loss(model, batch, members)
    loss.backward()
    result = {"logits": spread(output.logits.detach(), batch), "loss": loss.detach().view(1)}
    for name, p in model.named_parameters():
        if p.requires_grad:
            result[f"grad.{name}"] = torch.zeros_like(p) if p.grad is None else p.grad.clone()
    for i, choices in enumerate(output.clusterings):
        for name, table in choice_tables(choices, model.config).items():
            result[f"{name}.{i}"] = table
    return result, output


def train(model: Model, batch: Batch, steps: int) -> None:
    """Updates on one batch. The running statistics of batch norms stay as they are."""
    optimiser = AdamW(model, model.config.train, horizon=model.config.train.steps or steps)
    for _ in range(steps):
        model.zero_grad()
        forward_loss(model, batch)[1].backward()
        optimiser.update()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--weights")
    parser.add_argument("--batch")
    parser.add_argument("--out")
    parser.add_argument("--init", type=int, metavar="SEED")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--weights-out")
    parser.add_argument("--float", action="store_true", help="compute in float32")
    args = parser.parse_intermixed_args()
    config = configuration.load(args.config, args.overrides)
    dtype = torch.float32 if args.float else torch.float64
    torch.set_num_threads(1)
    if args.init is not None:
        torch.manual_seed(args.init)
        save_file(weights_of(Model(config).to(dtype)), args.weights_out)
        return
    model = load_model(config, load_file(args.weights), dtype)
    batch = read_batch(load_file(args.batch))
    if args.steps:
        train(model, batch, args.steps)
        save_file(weights_of(model), args.weights_out)
    if args.out:
        save_file(step(model, batch)[0], args.out)


if __name__ == "__main__":
    main()
