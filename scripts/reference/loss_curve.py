#!/usr/bin/env python3
"""Trains this model on real data in a given order, to compare its loss curve with `cast_train`'s.

    loss_curve.py CONFIG [key=value ...] --weights W --data DIR --order FILE --out FILE.jsonl
                  [--steps n] [--double] [--compare metrics.jsonl]
    loss_curve.py --out FILE.jsonl --compare metrics.jsonl

W comes from `cast_step CONFIG --init SEED --weights-out W`. DIR/train.safetensors holds `tokens`
[total], `offsets` I64 (of documents), `labels` I32, and of pairs `pairs` [n,2], their documents; FILE
comes from order.py. One line of JSON an update:
{"kind": "train", "step": s, "loss": mean over the update's samples, before the update}.

`--compare` reads such lines from another run and prints the means of every 100 updates of both,
and their relative difference. Single precision rounds differently in different summation orders
and training amplifies it: curves agree closely at first, and later in the mean. Two runs of PyTorch
with other numbers of threads part in the same way. `--double` computes in double precision, for
`make MODE=double` of cast_train and cast_step.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

import batched
import config as configuration
from config import Config
from model import Model
from optim import AdamW
from step import load_model

WINDOW = 100


class Data:
    """Documents of a data set, whole; cut to max_length when they are read."""

    def __init__(self, path: Path, config: Config) -> None:
        tensors = load_file(path)
        self.tokens, self.labels = tensors["tokens"], tensors["labels"].long()
        self.offsets = tensors["offsets"].tolist()
        self.max_length = config.model.max_length
        n = len(self.labels)
        self.documents = tensors["pairs"].tolist() if "pairs" in tensors else [[i] for i in range(n)]
        if len(self.documents) != n or any(len(d) != config.shape.documents for d in self.documents):
            raise SystemExit(f"{path}: not {n} examples of {config.shape.documents} documents")

    def document(self, i: int) -> Tensor:
        start, end = self.offsets[i], self.offsets[i + 1]
        return self.tokens[start : min(end, start + self.max_length)].long()

    def batch(self, samples: Tensor) -> tuple[list[Tensor], Tensor]:
        indices = (i for s in samples.tolist() for i in self.documents[s])
        return [self.document(i) for i in indices], self.labels[samples.long()]


def logits_of(model: Model, documents: list[Tensor]) -> Tensor:
    """The batched form where lengths allow it, which is the same but for rounding."""
    if len({len(document) for document in documents}) > 1 or not batched.has(model.config):
        return model(documents).logits
    tokens = torch.stack(documents)
    if model.config.shape.documents == 2:
        tokens = tokens.view(-1, 2, tokens.shape[-1])
    return batched.logits(model, tokens)


def losses(model: Model, data: Data, order: Tensor, horizon: int) -> Iterator[float]:
    """Trains through the order; the loss of every update."""
    train = model.config.train
    optimiser = AdamW(model, train, horizon)
    for samples in order:
        total = 0.0
        for part in samples.split(train.batch):
            documents, labels = data.batch(part)
            logits = logits_of(model, documents)
            loss = F.cross_entropy(logits, labels, label_smoothing=train.label_smoothing)
            loss = loss / train.accumulate
            loss.backward()
            total += loss.item()
        optimiser.update()
        model.commit_statistics()
        yield total


def check_trains(config: Config, read: dict) -> None:
    """What draws numbers of its own in cast_train would draw others here."""
    if any(config.model.drop(place) for place in ("embed", "attention", "ffn")):
        raise SystemExit("loss_curve.py: dropout draws its own masks here; set model.dropout=0")
    if read.get("data", {}).get("augment"):
        raise SystemExit("loss_curve.py: examples come as they are; set data.augment=false")
    if config.train.objective != "classify":
        raise SystemExit("loss_curve.py: masks are not drawn here; set train.objective=classify")


def run(args: argparse.Namespace) -> None:
    read = configuration.read(args.config, args.overrides)
    config = configuration.from_json(read)
    check_trains(config, read)
    data = Data(args.data / "train.safetensors", config)
    samples = load_file(args.order)
    order, train = samples["order"], config.train
    if order.shape[1] != train.batch * train.accumulate:
        raise SystemExit(
            f"{args.order}: {order.shape[1]} samples an update, not batch x accumulate"
        )
    horizon = train.steps or train.epochs * samples["epoch"].item()
    dtype = torch.float64 if args.double else torch.float32
    model = load_model(config, load_file(args.weights), dtype)
    with args.out.open("w") as file:
        for s, loss in enumerate(losses(model, data, order[: args.steps], horizon), 1):
            print(json.dumps({"kind": "train", "step": s, "loss": loss}), file=file, flush=True)


def means(path: Path) -> dict[int, float]:
    """Mean loss of updates 1 to 100, 101 to 200, ..., by the last update of each."""
    losses = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record.get("kind", "train") == "train" and record.get("loss") is not None:
            losses[record["step"]] = record["loss"]  # the last of an update that was made again
    windows: dict[int, list[float]] = {}
    for step, loss in losses.items():
        windows.setdefault(-(-step // WINDOW) * WINDOW, []).append(loss)
    return {last: sum(found) / len(found) for last, found in windows.items()}


def compare(ours: Path, theirs: Path) -> None:
    a, b = means(ours), means(theirs)
    print("updates to   PyTorch     other  difference")
    for last in sorted(a.keys() & b.keys()):
        print(f"{last:10} {a[last]:9.5f} {b[last]:9.5f} {b[last] / a[last] - 1:+11.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("config", nargs="?")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--order", type=Path)
    parser.add_argument("--steps", type=int, help="updates; default all of the order")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--compare", type=Path, metavar="METRICS")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_intermixed_args()
    torch.set_num_threads(args.threads)
    if args.config:
        if not (args.weights and args.data and args.order):
            parser.error("training needs --weights, --data and --order")
        run(args)
    if args.compare:
        compare(args.out, args.compare)


if __name__ == "__main__":
    main()
