"""The cases of the parity check and of the golden vectors: a table of configs, and random inputs.

Weights are initial values plus noise, so that biases, norms and running statistics all matter;
batches hold documents of different lengths, down to one token. What stands beyond a document's
length in a batch file is a token id that no vocabulary has, so that reading it shows.
"""

import zlib
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn

import config as configuration
from config import Config
from model import Clustering, Model, Output, descending

Tensors = dict[str, Tensor]

NOT_A_TOKEN = -12345


class Case(NamedTuple):
    name: str
    config: Config
    lengths: list  # [B], or [B][2] for pairs
    updates: int = 0  # on the batch, compared besides the single step
    ties: bool = False  # all cluster scores equal: only the order of ties decides
    # In single precision pointless: too many scores for all of them to lie 1e-4 apart, or a batch
    # norm over two tokens, which makes them +-1 and their gradients a difference of equals.
    double_only: bool = False


SINGLE = [1, 5, 23, 24]  # with k = 6: one token, fewer than k, indivisible by C, full
PAIRS = [[1, 23], [24, 5], [7, 7]]
MODEL = {"depth": 2, "heads": 2, "d": 8, "d_ff": 12, "d_emb": 13, "max_length": 24}
MECHANISMS = ("topk", "sa_topk")
FUNCTIONS = ("softmax", "laplace")
NORMS = ("layer", "scale", "batch")
# Each mechanism's keys, where not the papers': small, so that tiny sequences are cut.
ATTENTION = {
    "cast": {"clusters": 4},
    "local": {"window": 5},
    "clustered": {"clusters": 4, "bits": 8, "iterations": 4},
    "i-clustered": {"clusters": 4, "bits": 8, "iterations": 4, "top_k": 3},
    "lsh": {"rounds": 2, "buckets": 6, "chunk": 4},
    "smyrf": {"rounds": 2, "cluster_size": 5},
    "performer": {"features": 6},  # a block of four, and one that is cut
    "linformer": {"rank": 6},
    "nystrom": {"landmarks": 5, "conv_kernel": 5},
}
OTHERS = [kind.type for kind in configuration.OTHERS]
ATTENTION_KEYS = set().union(*(k.__dataclass_fields__ for k in configuration.ATTENTION.values()))
MODEL_KEYS = set(configuration.Model.__dataclass_fields__)


def case(name: str, lengths: list, task: str = "", **keys: object) -> Case:
    """A case from keys of any section; those left out are the tiny model's above."""
    options = {key: keys.pop(key) for key in Case._fields if key in keys}
    attention = {key: keys.pop(key) for key in list(keys) if key in ATTENTION_KEYS}
    attention = ATTENTION.get(attention.get("type", "cast"), {}) | attention
    model = MODEL | {key: keys.pop(key) for key in list(keys) if key in MODEL_KEYS}
    train = {"batch": len(lengths)} | keys
    if not task:
        task = "retrieval" if isinstance(lengths[0], list) else "listops"
    data = {"task": task, "model": model | {"attention": attention}, "train": train}
    return Case(name, configuration.from_json(data), lengths, **options)


def grid() -> Iterator[Case]:
    """Mechanisms x functions x norms x pre/post x one/two documents."""
    for mechanism, fn, norm, pre, lengths in product(
        MECHANISMS, FUNCTIONS, NORMS, (True, False), (SINGLE, PAIRS)
    ):
        place, documents = "pre" if pre else "post", "single" if lengths is SINGLE else "pair"
        yield case(
            f"{mechanism}/{fn}/{norm}/{place}/{documents}",
            lengths,
            mechanism=mechanism,
            attention_fn=fn,
            norm=norm,
            pre_norm=pre,
        )


ABLATIONS = {
    "summaries-off": {"summaries": False},
    "intra-off": {"intra": False},
    "frozen": {"surrogates": "frozen"},
    "sinusoidal": {"positions": "sinusoidal"},
    "cls": {"pooling": "cls"},
    # With rotary positions tokens of one id tie in the first block; few draws of 256 ids repeat one.
    "rope": {"positions": "rope", "task": "image"},
    "rope-cls": {"positions": "rope", "pooling": "cls", "d_emb": 8, "task": "image"},
    "rope-batch": {"positions": "rope", "norm": "batch", "pre_norm": False, "task": "image"},
    "conv": {"conv": 5},
    "conv-rope-post": {"conv": 3, "positions": "rope", "pre_norm": False},
    "conv-batch": {"conv": 7, "norm": "batch"},
    "conv-residual": {"conv": 5, "conv_residual": True},
    "conv-residual-post": {"conv": 3, "conv_residual": True, "pre_norm": False},
    "conv-residual-batch": {"conv": 5, "conv_residual": True, "norm": "batch"},
    "no-proj": {"d_emb": 8},
    "narrow-embedding": {"d_emb": 6},  # cast_step folds the projection into wider tables only
    "narrow-cls": {"d_emb": 6, "pooling": "cls", "norm": "batch"},
    "wide-sinusoidal": {"d_emb": 19, "positions": "sinusoidal", "norm": "batch"},
    "wide-cls": {"d_emb": 20, "pooling": "cls", "norm": "batch", "pre_norm": False},
    "size-3": {"cluster_size": 3},  # C k < N: tokens left over
    "size-30": {"cluster_size": 30},  # k > N: single assignment leaves clusters empty
    "length": {"cluster_size": "length"},
    "smoothed-labels": {"label_smoothing": 0.1},
}


def ablations() -> Iterator[Case]:
    for (name, keys), mechanism, fn in product(ABLATIONS.items(), MECHANISMS, FUNCTIONS):
        keys = {"mechanism": mechanism, "attention_fn": fn} | keys
        yield case(f"{name}/{mechanism}/{fn}", SINGLE, **keys)


SHAPES = {
    "one-cluster": {"clusters": 1},
    "one-slot": {"cluster_size": 1},
    "one-head": {"heads": 1},
    "one-feature-heads": {"heads": 8},
    "one-feature": {"heads": 1, "d": 1, "d_emb": 1, "d_ff": 1, "norm": "batch"},
    "four-heads": {"heads": 4, "d": 16, "d_emb": 16},
    "clusters-over-tokens": {"clusters": 40, "cluster_size": "length"},
    "indivisible-fixed": {"clusters": 5},
    "three-blocks": {"depth": 3, "norm": "batch"},
    "odd-sinusoidal": {"positions": "sinusoidal", "d_emb": 7},
    "cls-length-post": {"pooling": "cls", "cluster_size": "length", "pre_norm": False},
    "cls-sinusoidal": {"pooling": "cls", "positions": "sinusoidal", "norm": "batch"},
    "image": {"task": "image"},
}


def shapes() -> Iterator[Case]:
    for (name, keys), mechanism in product(SHAPES.items(), MECHANISMS):
        yield case(f"{name}/{mechanism}", SINGLE, mechanism=mechanism, **keys)
    for norm, mechanism in product(NORMS, MECHANISMS):
        yield case(f"one-token/{norm}/{mechanism}", [1], mechanism=mechanism, norm=norm)
        yield case(
            f"one-token-pair/{norm}/{mechanism}",
            [[1, 1]],
            mechanism=mechanism,
            norm=norm,
            double_only=norm == "batch",
        )
    for mechanism, fn in product(MECHANISMS, FUNCTIONS):
        yield case(
            f"pair-cls-frozen/{mechanism}/{fn}",
            PAIRS,
            mechanism=mechanism,
            attention_fn=fn,
            pooling="cls",
            surrogates="frozen",
            cluster_size="length",
        )
        yield case(
            f"long/{mechanism}/{fn}",
            [299, 130],
            mechanism=mechanism,
            attention_fn=fn,
            max_length=300,
            clusters=2,
            d=16,
            depth=1,
            double_only=mechanism == "sa_topk",
        )
    for mechanism in MECHANISMS:
        yield case(f"ties/{mechanism}", SINGLE, mechanism=mechanism, ties=True)
        yield case(f"smoothed-pair/{mechanism}", PAIRS, mechanism=mechanism, label_smoothing=0.5)


def baselines() -> Iterator[Case]:
    for kind, norm, pre, lengths in product(
        ("full", "naive"), NORMS, (True, False), (SINGLE, PAIRS)
    ):
        place, documents = "pre" if pre else "post", "single" if lengths is SINGLE else "pair"
        name = f"{kind}/{norm}/{place}/{documents}"
        yield case(name, lengths, type=kind, norm=norm, pre_norm=pre)
    for kind in ("full", "naive"):
        yield case(f"{kind}/cls", SINGLE, type=kind, pooling="cls")
        yield case(f"{kind}/sinusoidal", SINGLE, type=kind, positions="sinusoidal")
        yield case(f"{kind}/rope-pair", PAIRS, type=kind, positions="rope", conv=3)
        yield case(f"{kind}/rope-cls", SINGLE, type=kind, positions="rope", pooling="cls")
        yield case(f"{kind}/one-feature-heads", SINGLE, type=kind, heads=8)
        yield case(f"{kind}/long", [299, 130], type=kind, max_length=300, d=16, depth=1)


def masked() -> Iterator[Case]:
    """Masked training x mechanisms x norms x pre/post x one/two documents."""
    for kind, norm, pre, lengths in product(
        ("cast", "full", "naive"), NORMS, (True, False), (SINGLE, PAIRS)
    ):
        place, documents = "pre" if pre else "post", "single" if lengths is SINGLE else "pair"
        keys = {"type": kind, "norm": norm, "pre_norm": pre, "objective": "masked"}
        yield case(f"masked/{kind}/{norm}/{place}/{documents}", lengths, **keys)
    for kind in ("cast", "full"):
        keys = {"type": kind, "objective": "masked"}
        yield case(f"masked/{kind}/cls", SINGLE, pooling="cls", **keys)
        yield case(f"masked/{kind}/no-proj", SINGLE, d_emb=8, positions="sinusoidal", **keys)
        yield case(f"masked/{kind}/conv", SINGLE, conv=3, **keys)
        yield case(f"masked/{kind}/image", SINGLE, task="image", **keys)
        yield case(f"masked/{kind}/tiles", [299, 130], max_length=300, depth=1, **keys)
    yield case("masked/full/rope-cls", SINGLE, type="full", positions="rope", pooling="cls", objective="masked")


# Of each of the nine others, beside norms x pre/post x one/two documents.
AROUND = {
    "cls": {"pooling": "cls"},
    "sinusoidal": {"positions": "sinusoidal", "d_emb": 8},
    # Of 256 ids few repeat: without positions, tokens of one id tie in sorts.
    "rope": {"positions": "rope", "task": "image"},
    "rope-cls": {"positions": "rope", "pooling": "cls", "pre_norm": False, "task": "image"},
    "conv": {"conv": 5, "norm": "batch"},
    "conv-residual": {"conv": 3, "conv_residual": True},
    "conv-rope": {"conv": 3, "positions": "rope", "task": "image"},
    "one-feature-heads": {"heads": 8},
    "one-head": {"heads": 1},
    "one-token": {"lengths": [1]},
    "masked": {"objective": "masked"},
    "masked-pair": {"objective": "masked", "norm": "batch", "pre_norm": False, "lengths": PAIRS},
}
CLUSTERED = {
    "clusters-1": {"clusters": 1},
    "clusters-40": {"clusters": 40},
    "bits-1": {"bits": 1},  # two codes for four clusters: some are empty
    "bits-2": {"bits": 2, "clusters": 9, "iterations": 10},
    "bits-63": {"bits": 63},
    "bits-64": {"bits": 64},
    "no-bias": {"hash_bias": False},
    "iterations-1": {"iterations": 1},
    "iterations-2": {"iterations": 2, "clusters": 9},
}
KEYS = {
    "local": {
        "window-1": {"window": 1},
        "window-2": {"window": 2},
        "window-7": {"window": 7},
        "window-30": {"window": 30},
        "window-48": {"window": 48},
    },
    "clustered": CLUSTERED,
    "i-clustered": CLUSTERED
    | {
        "top-1": {"top_k": 1},
        "top-23": {"top_k": 23},  # of 24 keys one is left
        "top-24": {"top_k": 24},
    },
    "lsh": {
        "rounds-1": {"rounds": 1},
        "rounds-4": {"rounds": 4},
        "buckets-2": {"buckets": 2},
        "buckets-64": {"buckets": 64},
        "chunk-2": {"chunk": 2},
        "chunk-23": {"chunk": 23},  # a last chunk of one token
        "chunk-40": {"chunk": 40},
    },
    "smyrf": {
        "rounds-1": {"rounds": 1},
        "rounds-4": {"rounds": 4},
        "cluster-size-1": {"cluster_size": 1},
        "cluster-size-23": {"cluster_size": 23},
        "cluster-size-40": {"cluster_size": 40},
    },
    "performer": {
        "features-0": {"features": 0},
        "features-0-wide": {"features": 0, "heads": 1, "d": 12},  # 30: over eight
        "features-1": {"features": 1},
        "features-8": {"features": 8},
        "features-50": {"features": 50},
    },
    "linformer": {
        "rank-1": {"rank": 1},
        "rank-256": {"rank": 256},
        "rank-24-cls": {"rank": 24, "pooling": "cls"},
    },
    "nystrom": {
        "landmarks-1": {"landmarks": 1},
        "landmarks-7": {"landmarks": 7},
        "landmarks-23": {"landmarks": 23},
        "landmarks-24": {"landmarks": 24},
        "iterations-1": {"pinv_iterations": 1},
        "iterations-10": {"pinv_iterations": 10},
        "no-conv": {"conv_kernel": 0},
        "conv-1": {"conv_kernel": 1},
        "conv-3": {"conv_kernel": 3},
        "conv-35": {"conv_kernel": 35},
    },
}


def others() -> Iterator[Case]:
    for kind, norm, pre, lengths in product(OTHERS, NORMS, (True, False), (SINGLE, PAIRS)):
        place, documents = "pre" if pre else "post", "single" if lengths is SINGLE else "pair"
        name = f"{kind}/{norm}/{place}/{documents}"
        yield case(name, lengths, type=kind, norm=norm, pre_norm=pre)
    for kind in OTHERS:
        for name, keys in (AROUND | KEYS.get(kind, {})).items():
            yield case(f"{kind}/{name}", **({"lengths": SINGLE, "type": kind} | keys))
        papers = asdict(configuration.ATTENTION[kind]())
        yield case(f"{kind}/papers-keys", SINGLE, **papers)  # shorter than every block
        yield case(f"{kind}/long", [299, 130], **papers, max_length=300, d=16, depth=1)
        yield case(f"{kind}/long-pair", [[70, 33]], **papers, max_length=80)


# The horizon is not the number of updates that are run, so that taking one for the other shows.
UPDATES = {"lr": 1e-2, "weight_decay": 0.1, "clip": 1.0, "steps": 60}
TRAINING = {
    "constant": {"schedule": "constant"},
    "constant-warmup": {"schedule": "constant", "warmup": 20},
    "linear": {"schedule": "linear", "warmup": 5},
    "linear-no-warmup": {"schedule": "linear"},
    "cosine": {"schedule": "cosine", "warmup": 5, "norm": "batch"},
    "rsqrt": {"schedule": "rsqrt", "warmup": 8, "norm": "scale"},
    "no-clip": {"schedule": "constant", "clip": 0.0},
    "hard-clip": {"schedule": "constant", "clip": 0.01},
    "no-decay": {"schedule": "constant", "weight_decay": 0.0},
    "betas": {"schedule": "constant", "beta1": 0.8, "beta2": 0.95, "eps": 1e-6},
    "frozen": {"schedule": "constant", "surrogates": "frozen"},
    "sa-laplace": {
        "schedule": "linear",
        "mechanism": "sa_topk",
        "attention_fn": "laplace",
    },
    "cls-sa": {
        "schedule": "cosine",
        "mechanism": "sa_topk",
        "pooling": "cls",
        "pre_norm": False,
    },
    "full": {"schedule": "cosine", "warmup": 5, "type": "full"},
    "rope-conv": {"schedule": "cosine", "positions": "rope", "conv": 3, "task": "image"},
    "conv-residual": {"schedule": "cosine", "conv": 5, "conv_residual": True},
    "pair": {"schedule": "linear", "warmup": 5, "lengths": PAIRS},
    "masked": {"schedule": "cosine", "warmup": 5, "objective": "masked"},
    "masked-batch": {"schedule": "linear", "norm": "batch", "objective": "masked", "lengths": PAIRS},
    "smoothed-labels": {"schedule": "linear", "warmup": 5, "label_smoothing": 0.2},
    "smoothed-masked": {"schedule": "linear", "objective": "masked", "label_smoothing": 0.2},
}
TRAINING |= {f"{kind}/alone": TRAINING["full"] | {"type": kind} for kind in OTHERS}
TRAINING |= {f"{kind}/rope-conv": TRAINING["rope-conv"] | {"type": kind} for kind in OTHERS}


def training() -> Iterator[Case]:
    for name, keys in TRAINING.items():
        keys = {"lengths": SINGLE, "updates": 50} | UPDATES | keys
        yield case(f"50-updates/{name}", **keys)


def all_cases() -> list[Case]:
    return [*grid(), *ablations(), *shapes(), *baselines(), *masked(), *others(), *training()]


# Configs whose initial weights are looked at: between them they have every parameter there is.
INIT = {
    "layer": {"lengths": SINGLE, "d": 32, "heads": 4},
    "scale-cls": {"lengths": SINGLE, "norm": "scale", "pooling": "cls", "pre_norm": False},
    "batch-pair": {"lengths": PAIRS, "norm": "batch", "positions": "sinusoidal"},
    "full-no-proj": {"lengths": SINGLE, "type": "full", "d_emb": 8},
    "image-frozen": {"lengths": SINGLE, "task": "image", "surrogates": "frozen"},
    "rope-conv": {"lengths": SINGLE, "positions": "rope", "conv": 3, "conv_residual": True},
    "masked": {"lengths": SINGLE, "objective": "masked"},
    "smooth": {"lengths": SINGLE, "task": "image", "tok_init": "smooth"},
    "clustered": {"lengths": SINGLE, "type": "clustered", "bits": 63},
    "i-clustered": {"lengths": SINGLE, "type": "i-clustered", "bits": 63, "hash_bias": False},
    "lsh": {"lengths": SINGLE, "type": "lsh", "rounds": 4, "buckets": 64},
    "smyrf": {"lengths": SINGLE, "type": "smyrf", "rounds": 16},
    "performer": {"lengths": SINGLE, "type": "performer", "features": 150, "d": 32},
    "linformer": {"lengths": SINGLE, "type": "linformer", "rank": 40, "pooling": "cls"},
    "nystrom": {"lengths": SINGLE, "type": "nystrom", "heads": 8, "conv_kernel": 35},
}


# -- Random inputs ---------------------------------------------------------------------------------


def random_weights(case: Case) -> Tensors:
    """Initial values plus noise; of linear layers, noise that keeps activations' size."""
    model = Model(case.config).double()
    with torch.no_grad():
        for module in model.modules():
            for p in module.parameters(recurse=False):
                fan_in = p.shape[1] if isinstance(module, nn.Linear) and p.dim() == 2 else 8
                p += 0.8 * fan_in**-0.5 * torch.randn_like(p)
        for name, statistic in model.named_buffers():
            if name.endswith("running_mean"):
                statistic += 0.3 * torch.randn_like(statistic)
            elif name.endswith("running_var"):
                statistic *= torch.exp(0.3 * torch.randn_like(statistic))
            else:  # a draw: what is drawn as 0 and ignored must be ignored
                statistic += 0.3 * torch.randn_like(statistic)
        if case.ties:
            for name, p in model.named_parameters():
                if "surrogate" in name or "phi" in name:
                    p.zero_()
    return {name: w.detach().clone() for name, w in model.state_dict().items()}


def random_batch(case: Case) -> Tensors:
    shape = case.config.shape
    lengths = torch.tensor(case.lengths, dtype=torch.int32)
    tokens = torch.randint(shape.vocab, (*lengths.shape, int(lengths.max())))
    tokens[torch.arange(tokens.shape[-1]) >= lengths[..., None]] = NOT_A_TOKEN
    batch = {"tokens": tokens.int(), "lengths": lengths}
    if case.config.train.objective == "masked":
        return batch | random_masks(tokens, shape.vocab)
    labels = torch.randint(shape.classes, (len(lengths),))
    return batch | {"labels": labels.int()}


def random_masks(tokens: Tensor, vocab: int) -> Tensors:
    """Three of five tokens, and at least one. Where nothing is masked, targets are no tokens."""
    mask = (torch.rand(tokens.shape) < 0.6) & (tokens != NOT_A_TOKEN)
    mask.view(-1, mask.shape[-1])[0, 0] = True
    targets = torch.where(mask, torch.randint(vocab, tokens.shape), NOT_A_TOKEN)
    return {"mask": mask.int(), "targets": targets.int()}


def draw(case: Case, attempt: int, dtype: torch.dtype) -> tuple[Tensors, Tensors]:
    """The case's weights and batch number `attempt`, the weights rounded to dtype."""
    torch.manual_seed(zlib.crc32(f"{case.name} {attempt}".encode()))
    weights = {name: w.to(dtype) for name, w in random_weights(case).items()}
    return weights, random_batch(case)


# -- How far a choice is from being another --------------------------------------------------------


def margin(clustering: Clustering, mechanism: str) -> float:
    """The least gap between two scores whose exchange could change the clusters.

    Top-K: between the last token taken and the first left out. Single assignment: between a
    token's cluster and every other that had room for it, and, wherever a cluster can fill up,
    between tokens next to each other in the order of choosing.
    """
    scores, k = clustering.scores, clustering.k
    N, C = scores.shape
    gaps = [torch.inf]
    if mechanism == "topk":
        if k < N:
            ranked = scores.sort(0, descending=True).values
            gaps += (ranked[k - 1] - ranked[k]).tolist()
        return min(gaps)
    best = scores.amax(1)
    order = descending(best)
    if k < N:
        gaps += (best[order][:-1] - best[order][1:]).tolist()
    room = [k] * C
    for n in order.tolist():
        open_scores = sorted((scores[n, c].item() for c in range(C) if room[c]), reverse=True)
        if len(open_scores) > 1:
            gaps.append(open_scores[0] - open_scores[1])
        chosen = next((c for c in descending(scores[n]).tolist() if room[c]), None)
        if chosen is not None:
            room[chosen] -= 1
    return min(gaps)


def least_margin(output: Output, config: Config) -> float:
    """Over all that was chosen, in every block for every document."""
    found = [torch.inf]
    for choice in (c for block in output.clusterings for c in block if c):
        if isinstance(choice, Clustering):
            found.append(margin(choice, config.model.attention.mechanism))
        else:
            found.append(choice.gap)
    return min(found)


def order_margin(output: Output, config: Config) -> float:
    """The least gap between scores of neighbours in Top-K's lists."""
    if config.model.attention.type != "cast":
        return torch.inf
    gaps = [torch.inf]
    for clustering in (c for block in output.clusterings for c in block):
        for c, tokens in enumerate(clustering.members):
            scores = clustering.scores[tokens, c]
            gaps += (scores[:-1] - scores[1:]).tolist()
    return min(gaps)
