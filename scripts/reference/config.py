"""The configuration: one table of defaults, read from JSON and `key=value` overrides.

The dataclasses below are the table. Unknown keys under `model` are errors, because a key that is
silently dropped would make two implementations compute different things; keys elsewhere pass, those
of running a training (lanes, logging) and those of what it trains on, which are the business of
loss_curve.py and order.py.
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Task(NamedTuple):
    vocab: int  # token ids 0 .. vocab - 1
    classes: int
    documents: int  # documents per sample: 1, or 2 for the dual-document head
    tokens: int  # read of each where model.max_length is 0


TASKS = {
    "listops": Task(16, 10, 1, 2000),
    "text": Task(257, 2, 1, 4096),
    "retrieval": Task(257, 2, 2, 4000),
    "image": Task(256, 10, 1, 1024),
    "pathfinder": Task(256, 2, 1, 1024),
    "pathx": Task(256, 2, 1, 16384),
}


def number(default: int, least: int = 1, most: float = math.inf) -> int:
    """A field that holds a whole number from `least` to `most`."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass
class Attention:
    """One class a mechanism, with the keys that it has: another's are unknown to it."""

    type: str

    def check(self) -> None:
        for key in dataclasses.fields(self):
            value, least = getattr(self, key.name), key.metadata.get("least")
            if least is None:
                continue
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and least <= value <= key.metadata["most"]):
                most = key.metadata["most"]
                limits = f"at least {least}" + (f", at most {most}" if most < math.inf else "")
                raise ValueError(f"{key.name} '{value}': a whole number, {limits}")


@dataclass
class Cast(Attention):
    type: str = "cast"
    mechanism: str = "topk"  # topk | sa_topk
    clusters: int = number(16)
    cluster_size: int | str = "fixed"  # a number | fixed | length
    attention_fn: str = "softmax"  # softmax | laplace
    summaries: bool = True
    intra: bool = True
    surrogates: str = "learned"  # learned | frozen

    def check(self) -> None:
        super().check()
        size = self.cluster_size
        if size not in ("fixed", "length") and not (isinstance(size, int) and size >= 1):
            raise ValueError(f"cluster_size '{size}': a number, fixed or length")
        if not (self.summaries or self.intra):
            raise ValueError("summaries and intra are both off: nothing is left to attend to")


@dataclass
class Full(Attention):
    type: str = "full"


@dataclass
class Naive(Attention):
    type: str = "naive"  # the same mathematics as full


@dataclass
class Local(Attention):
    type: str = "local"
    window: int = number(128)


@dataclass
class Clustered(Attention):
    type: str = "clustered"
    clusters: int = number(100)
    bits: int = number(63, most=64)
    iterations: int = number(10)
    hash_bias: bool = True


@dataclass
class IClustered(Clustered):
    type: str = "i-clustered"
    top_k: int = number(32)


@dataclass
class Lsh(Attention):
    type: str = "lsh"
    rounds: int = number(1)
    buckets: int = number(64, least=2)
    chunk: int = number(32, least=2)

    def check(self) -> None:
        super().check()
        if self.buckets % 2:
            raise ValueError(f"buckets = {self.buckets} must be even")


@dataclass
class Smyrf(Attention):
    type: str = "smyrf"
    rounds: int = number(4)
    cluster_size: int = number(64)


@dataclass
class Performer(Attention):
    type: str = "performer"
    features: int = number(0, least=0)  # 0: max(8, ceil(e ln e))


@dataclass
class Linear(Attention):
    type: str = "linear"


@dataclass
class Linformer(Attention):
    type: str = "linformer"
    rank: int = number(256)


@dataclass
class Nystrom(Attention):
    type: str = "nystrom"
    landmarks: int = number(128)
    pinv_iterations: int = number(6)
    conv_kernel: int = number(35, least=0)  # taps, odd; 0: none

    def check(self) -> None:
        super().check()
        if self.conv_kernel and self.conv_kernel % 2 == 0:
            raise ValueError(f"conv_kernel = {self.conv_kernel} must be odd")


OTHERS = (Local, Clustered, IClustered, Lsh, Smyrf, Performer, Linear, Linformer, Nystrom)
ATTENTION = {kind.type: kind for kind in (Cast, Full, Naive, *OTHERS)}


@dataclass
class Model:
    depth: int = 2
    heads: int = 2
    d: int = 128
    d_ff: int = 128
    d_emb: int = 256
    max_length: int = 0  # 0: as many as the task reads
    norm: str = "layer"  # layer | scale | batch
    pre_norm: bool = True
    positions: str = "learned"  # learned | sinusoidal | rope
    tok_init: str = "normal"  # normal | smooth
    conv: int = 0  # taps of the convolution before attention, odd; 0: none
    conv_residual: bool = False  # the residual connection keeps what the convolution adds
    pooling: str = "mean"  # mean | cls
    dropout: float = 0.0
    dropout_embed: float = -1.0  # -1, here and below: dropout
    dropout_attention: float = -1.0
    dropout_ffn: float = -1.0
    attention: Attention = field(default_factory=Cast)

    def drop(self, place: str) -> float:
        """The probability after "embed", "attention" or "ffn"."""
        own = getattr(self, f"dropout_{place}")
        return self.dropout if own < 0 else own


@dataclass
class Train:
    objective: str = "classify"  # classify | masked
    epochs: int = 1
    steps: int = 0  # 0: the horizon of the schedule is epochs times the updates of an epoch
    batch: int = 32
    accumulate: int = 1
    lr: float = 1e-3
    schedule: str = "constant"  # constant | linear | cosine | rsqrt
    warmup: int = 0
    weight_decay: float = 0.0
    clip: float = 0.0  # 0: off
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    label_smoothing: float = 0.0  # of the training loss
    seed: int = 1


CHOICES = {
    "mechanism": ("topk", "sa_topk"),
    "attention_fn": ("softmax", "laplace"),
    "surrogates": ("learned", "frozen"),
    "norm": ("layer", "scale", "batch"),
    "positions": ("learned", "sinusoidal", "rope"),
    "tok_init": ("normal", "smooth"),
    "pooling": ("mean", "cls"),
    "objective": ("classify", "masked"),
    "schedule": ("constant", "linear", "cosine", "rsqrt"),
}


@dataclass
class Config:
    task: str = "listops"
    model: Model = field(default_factory=Model)
    train: Train = field(default_factory=Train)

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task '{self.task}': known are {', '.join(TASKS)}")
        self.model.max_length = self.model.max_length or self.shape.tokens

    @property
    def shape(self) -> Task:
        return TASKS[self.task]

    def check(self) -> None:
        for section in (self.model, self.model.attention, self.train):
            for key, allowed in CHOICES.items():
                value = getattr(section, key, allowed[0])
                if value not in allowed:
                    raise ValueError(f"{key} '{value}': known are {', '.join(allowed)}")
        self.model.attention.check()
        if self.model.d % self.model.heads:
            raise ValueError(f"heads = {self.model.heads} must divide d = {self.model.d}")
        if self.model.conv and self.model.conv % 2 == 0:
            raise ValueError(f"conv = {self.model.conv} must be odd")
        if self.model.conv_residual and not self.model.conv:
            raise ValueError("conv_residual keeps what a convolution adds: conv must be odd")
        if self.model.positions == "rope" and self.model.d // self.model.heads % 2:
            raise ValueError("rope turns pairs of columns: d / heads must be even")

    def to_json(self) -> dict:
        """Every key written out, so that nothing depends on the reader's defaults."""
        data = dataclasses.asdict(self)
        if not data["train"]["steps"]:
            del data["train"]["steps"]
        return data


def attention_from_json(data: dict) -> Attention:
    name = data.get("type", "cast")
    if name not in ATTENTION:
        raise ValueError(f"type '{name}': known are {', '.join(ATTENTION)}")
    return ATTENTION[name](**data)


def from_json(data: dict) -> Config:
    model = dict(data.get("model", {}))
    attention = attention_from_json(model.pop("attention", {}))
    known = {f.name for f in dataclasses.fields(Train)}
    train = {key: value for key, value in data.get("train", {}).items() if key in known}
    config = Config(data["task"], Model(**model, attention=attention), Train(**train))
    config.check()
    return config


def parsed(override: str) -> tuple[str, object]:
    key, _, text = override.partition("=")
    try:
        return key, json.loads(text)
    except json.JSONDecodeError:
        return key, text


def section_of(data: dict, path: list[str]) -> dict:
    for name in path:
        data = data.setdefault(name, {})
    return data


def merged(base: dict, own: dict) -> dict:
    """What a config says in the place of its base's; another mechanism has keys of its own."""
    for key, value in own.items():
        was = base.get(key)
        if isinstance(was, dict) and isinstance(value, dict):
            kind = was.get("type", "cast")
            if key != "attention" or value.get("type", kind) == kind:
                value = merged(was, value)
        base[key] = value
    return base


def read_file(path: Path) -> dict:
    own = json.loads(path.read_text())
    base = own.pop("base", None)
    return merged(read_file(path.parent / base), own) if base else own


def read(path: str | Path, overrides: list[str] = ()) -> dict:
    """Reads a JSON file, then applies `a.b.c=value` overrides; a value is JSON or else a string.

    One that changes the mechanism drops the file's keys of the other, which mean nothing to it.
    """
    data = read_file(Path(path))
    values = dict(parsed(override) for override in overrides)
    model = section_of(data, ["model"])
    was = model.get("attention", {}).get("type", "cast")
    if values.get("model.attention.type", was) != was:
        model["attention"] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        section_of(data, sections)[name] = value
    return data


def load(path: str | Path, overrides: list[str] = ()) -> Config:
    return from_json(read(path, overrides))
