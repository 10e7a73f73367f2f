"""The configuration: one table of defaults, read from JSON and `key=value` overrides.

The dataclasses below are the table. Unknown keys under `model` are errors, because a key that is
silently dropped would make two implementations compute different things; keys elsewhere that only
concern running a training (lanes, logging, data) are none of the reference's business and pass.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Task(NamedTuple):
    vocab: int  # token ids 0 .. vocab - 1
    classes: int
    documents: int  # documents per sample: 1, or 2 for the dual-document head


TASKS = {
    "listops": Task(16, 10, 1),
    "text": Task(257, 2, 1),
    "retrieval": Task(257, 2, 2),
    "image": Task(256, 10, 1),
    "pathfinder": Task(256, 2, 1),
    "pathx": Task(256, 2, 1),
}


@dataclass
class Attention:
    type: str = "cast"  # cast | full | naive (full and naive are the same mathematics)
    mechanism: str = "topk"  # topk | sa_topk
    clusters: int = 16
    cluster_size: int | str = "fixed"  # a number | fixed | length
    attention_fn: str = "softmax"  # softmax | laplace
    summaries: bool = True
    intra: bool = True
    surrogates: str = "learned"  # learned | frozen


@dataclass
class Model:
    depth: int = 2
    heads: int = 2
    d: int = 128
    d_ff: int = 128
    d_emb: int = 256
    max_length: int = 1024
    norm: str = "layer"  # layer | scale | batch
    pre_norm: bool = True
    positions: str = "learned"  # learned | sinusoidal | rope
    conv: int = 0  # taps of the convolution before attention, odd; 0: none
    pooling: str = "mean"  # mean | cls
    dropout: float = 0.0
    dropout_embed: float = -1.0  # -1, here and below: dropout
    dropout_attention: float = -1.0
    dropout_ffn: float = -1.0
    attention: Attention = field(default_factory=Attention)

    def drop(self, place: str) -> float:
        """The probability after "embed", "attention" or "ffn"."""
        own = getattr(self, f"dropout_{place}")
        return self.dropout if own < 0 else own


@dataclass
class Train:
    objective: str = "classify"  # classify | masked
    epochs: int = 1
    steps: int = 0  # 0: the horizon of the schedule is epochs times the updates of an epoch
    batch: int = 50
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
    "type": ("cast", "full", "naive"),
    "mechanism": ("topk", "sa_topk"),
    "attention_fn": ("softmax", "laplace"),
    "surrogates": ("learned", "frozen"),
    "norm": ("layer", "scale", "batch"),
    "positions": ("learned", "sinusoidal", "rope"),
    "pooling": ("mean", "cls"),
    "objective": ("classify", "masked"),
    "schedule": ("constant", "linear", "cosine", "rsqrt"),
}


@dataclass
class Config:
    task: str = "listops"
    model: Model = field(default_factory=Model)
    train: Train = field(default_factory=Train)

    @property
    def shape(self) -> Task:
        return TASKS[self.task]

    def check(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task '{self.task}': known are {', '.join(TASKS)}")
        for section in (self.model, self.model.attention, self.train):
            for key, allowed in CHOICES.items():
                value = getattr(section, key, allowed[0])
                if value not in allowed:
                    raise ValueError(f"{key} '{value}': known are {', '.join(allowed)}")
        attention = self.model.attention
        size = attention.cluster_size
        if size not in ("fixed", "length") and not (isinstance(size, int) and size >= 1):
            raise ValueError(f"cluster_size '{size}': a number, fixed or length")
        if self.model.d % self.model.heads:
            raise ValueError(f"heads = {self.model.heads} must divide d = {self.model.d}")
        if self.model.conv and self.model.conv % 2 == 0:
            raise ValueError(f"conv = {self.model.conv} must be odd")
        if self.model.positions == "rope" and self.model.d // self.model.heads % 2:
            raise ValueError("rope turns pairs of columns: d / heads must be even")
        if attention.type == "cast" and not (attention.summaries or attention.intra):
            raise ValueError("summaries and intra are both off: nothing is left to attend to")

    def to_json(self) -> dict:
        """Every key written out, so that nothing depends on the reader's defaults."""
        data = dataclasses.asdict(self)
        attention = data["model"]["attention"]
        if attention["type"] != "cast":  # the baselines read none of CAST's keys
            data["model"]["attention"] = {"type": attention["type"]}
        if not data["train"]["steps"]:
            del data["train"]["steps"]
        return data


def from_json(data: dict) -> Config:
    model = dict(data.get("model", {}))
    attention = Attention(**model.pop("attention", {}))
    known = {f.name for f in dataclasses.fields(Train)}
    train = {key: value for key, value in data.get("train", {}).items() if key in known}
    config = Config(data["task"], Model(**model, attention=attention), Train(**train))
    config.check()
    return config


def load(path: str | Path, overrides: list[str] = ()) -> Config:
    """Reads a JSON file, then applies `a.b.c=value` overrides; a value is JSON or else a string."""
    data = json.loads(Path(path).read_text())
    for override in overrides:
        key, _, text = override.partition("=")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        *sections, name = key.split(".")
        target = data
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = value
    return from_json(data)
