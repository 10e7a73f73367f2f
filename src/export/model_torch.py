#!/usr/bin/env python3
"""Reads what cast_export wrote: a trained model, in PyTorch.

    from NAME_torch import load
    model = load()                        # NAME.safetensors, which lies beside this file
    model([[3, 1, 4], [1, 5]])            # logits [B,K] of two documents, their token ids
    model([(a, b), (c, d)])               # of two pairs, where the task has pairs

    python3 NAME_torch.py data/listops/test.safetensors     # accuracy on a prepared split

Parameters have the names that they have in the file, and gradients: model.train() goes on training
it, with the dropout that it was trained with. Attention sees one document at a time, at its own
length, so there is no padding and no mask. The steps of CAST (arXiv:2402.04239) are numbered as in
the project's docs/method.md.

Sizes: N tokens of a document, T tokens of all documents of a batch, d width, h heads, e = d / h,
C clusters, k cluster size, K classes.
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

# ---- files ----

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "U8": torch.uint8,
}


def read_safetensors(path):
    """The tensors of a file by name, and its metadata."""
    data = bytearray(Path(path).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        count, at = math.prod(t["shape"]), start + t["data_offsets"][0]
        flat = torch.frombuffer(data, dtype=DTYPES[t["dtype"]], count=count, offset=at)
        tensors[name] = flat.reshape(t["shape"])
    return tensors, metadata


def read_split(path):
    """The examples of a prepared split: (document or pair, label)."""
    t, _ = read_safetensors(path)
    documents = torch.tensor_split(t["tokens"].long() & 0xFFFF, t["offsets"][1:-1])
    for i, label in enumerate(t["labels"].tolist()):
        if "pairs" in t:
            a, b = t["pairs"][i].tolist()
            yield (documents[a], documents[b]), label
        else:
            yield documents[i], label


CHOICES = {
    "type": ("cast", "full", "naive"),
    "mechanism": ("topk", "sa_topk"),
    "attention_fn": ("softmax", "laplace"),
    "surrogates": ("learned", "frozen"),
    "norm": ("layer", "scale", "batch"),
    "positions": ("learned", "sinusoidal", "rope"),
    "pooling": ("mean", "cls"),
}
OTHERS = "depth heads d d_ff d_emb max_length pre_norm conv conv_residual attention".split()
OTHERS += "tok_init dropout dropout_embed dropout_attention dropout_ffn".split()
OTHERS += "clusters cluster_size summaries intra".split()


def check(config):
    """Refuses what this file does not compute."""
    for key, value in (config | config["attention"]).items():
        if key not in CHOICES and key not in OTHERS:
            raise ValueError(f"the model has a key that is not known here: {key}")
        if key in CHOICES and value not in CHOICES[key]:
            raise ValueError(f"{key} {value!r} is not computed here, but {CHOICES[key]}")


# ---- functions ----


def dropout(config, place):
    """Of one place, "embed", "attention" or "ffn"; where it has no rate of its own, that of all."""
    own = config.get("dropout_" + place, -1)
    return nn.Dropout(config["dropout"] if own < 0 else own)


def laplace(x, dim):
    """Elementwise, not normalised: `dim` plays no part (arXiv:2209.10655, equation 16)."""
    mu, sigma = math.sqrt(1 / 2), math.sqrt(1 / (4 * math.pi))
    return torch.erfc((mu - x) / (sigma * math.sqrt(2))) / 2


def softplus1(x):
    return 1 + torch.logaddexp(x, torch.zeros_like(x))


def descending(x):
    """Indices from the largest to the smallest; equal values by index."""
    return torch.sort(-x, stable=True).indices


def top_k(scores, k):
    """Every cluster takes its k best tokens. scores [N,C]; C lists of tokens."""
    return [descending(column)[:k] for column in scores.T]


def single_assignment_top_k(scores, k):
    """By falling best score, each token goes to its best cluster that has room."""
    members = [[] for _ in scores.T]
    for n in descending(scores.amax(1)).tolist():
        open_clusters = (c for c in descending(scores[n]).tolist() if len(members[c]) < k)
        c = next(open_clusters, None)
        if c is not None:
            members[c].append(n)
    return [torch.tensor(tokens, dtype=torch.long, device=scores.device) for tokens in members]


def sinusoidal(N, d):
    angle = torch.arange(N).double()[:, None] / 10000 ** (2 * (torch.arange(d) // 2).double() / d)
    return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())


def turned(x):
    """Rotary positions (arXiv:2104.09864): pairs of columns of x [N,h,e], turned by the place."""
    N, _, e = x.shape
    place = torch.arange(N, device=x.device).double()
    angle = place[:, None] * 10000 ** (-torch.arange(0, e, 2, device=x.device).double() / e)
    cos, sin = (f(angle)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


# ---- attention ----


class Attention(nn.Module):
    """Exact softmax attention: `full`, and `naive`, which is the same mathematics."""

    def __init__(self, config):
        super().__init__()
        d = config["d"]
        self.config = config
        self.q, self.key, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def placed(self, q, k):
        return (turned(q), turned(k)) if self.config["positions"] == "rope" else (q, k)

    def mix(self, x, q, k, v):
        """What goes through the output projection, [N,h,e]; x is the layer's input."""
        q, k = self.placed(q, k)
        q, k, v = (y.transpose(0, 1) for y in (q, k, v))
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), 2)
        return (weights @ v).transpose(0, 1)

    def forward(self, x):
        """x [N,d], of one document."""
        heads = (len(x), self.config["heads"], -1)
        q, k, v = (layer(x).view(heads) for layer in (self.q, self.key, self.v))
        return self.o(self.mix(x, q, k, v).reshape(x.shape))


class CastAttention(Attention):
    def __init__(self, config):
        super().__init__(config)
        d, h, a = config["d"], config["heads"], config["attention"]
        self.phi = nn.Linear(d, 1)
        trains = a["surrogates"] == "learned"
        self.surrogate = nn.Parameter(torch.empty(a["clusters"], h, d // h), requires_grad=trains)

    def cluster_size(self, N):
        C, size = (self.config["attention"][key] for key in ("clusters", "cluster_size"))
        if size == "fixed":
            return math.ceil(self.config["max_length"] / C)
        return math.ceil(N / C) if size == "length" else size

    def mix(self, x, q, k, v):
        a = self.config["attention"]
        f = torch.softmax if a["attention_fn"] == "softmax" else laplace
        tau = math.sqrt(q.shape[2])
        phi = self.phi(x)  # [N,1]

        # Step 2: similarities of queries and keys to the surrogate tokens, [N,h,C].
        a_q, a_k = (torch.einsum("nhe,che->nhc", y, self.surrogate) for y in (q, k))

        # Steps 3 and 4: affinities [N,C], and what each cluster takes: a choice has no gradient.
        with torch.no_grad():
            f_q, f_k = f(a_q / tau, 2), f(a_k / tau, 2)
            scores = (f_k + torch.sigmoid(phi)[:, None] * (f_q - f_k)).sum(1)
            choose = top_k if a["mechanism"] == "topk" else single_assignment_top_k
            members = choose(scores, self.cluster_size(len(x)))

        # Step 7: how much a token takes from each cluster, [N,h,C].
        share = f(a_q * softplus1(phi)[:, None] / tau, 2)

        placed_q, placed_k = self.placed(q, k)
        result = torch.zeros_like(v)
        for c, tokens in enumerate(members):
            if len(tokens) == 0:
                continue
            # Step 5: attention among the cluster's own tokens. Step 8: they take its result,
            if a["intra"]:
                similarity = torch.einsum("ihe,jhe->hij", placed_q[tokens], placed_k[tokens])
                intra = torch.einsum("hij,jhe->ihe", f(similarity / tau, 2), v[tokens])
                result = result.index_add(0, tokens, share[tokens, :, c, None] * intra)
            # all others the cluster's summary, step 6.
            if a["summaries"]:
                weight = f(a_k[tokens, :, c] * softplus1(-phi[tokens]) / tau, 0)
                summary = torch.einsum("nh,nhe->he", weight, v[tokens])
                outside = torch.ones_like(phi)[..., None].index_fill(0, tokens, 0)
                result = result + outside * share[:, :, c, None] * summary
        return result


# ---- the model ----


class ScaleNorm(nn.Module):
    """g x / |x| (arXiv:1910.05895)."""

    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(math.sqrt(d)))

    def forward(self, x):
        return self.g * x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-5)


class BatchStatistics(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.register_buffer("running_mean", torch.zeros(d))
        self.register_buffer("running_var", torch.ones(d))


class BatchNorm(nn.Module):
    """Per feature, over all tokens of all documents of the batch."""

    def __init__(self, d):
        super().__init__()
        self.bn = BatchStatistics(d)

    def forward(self, x):
        s = self.bn
        mean, var, momentum, eps = s.running_mean, s.running_var, 0.1, 1e-5
        return F.batch_norm(x, mean, var, s.weight, s.bias, self.training, momentum, eps)


NORMS = {"layer": nn.LayerNorm, "scale": ScaleNorm, "batch": BatchNorm}  # LayerNorm: eps 1e-5


class Convolution(nn.Module):
    """x + conv(x) along tokens, each feature with taps of its own; zeros beyond the ends."""

    def __init__(self, d, taps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(d, taps))

    def forward(self, x):
        d, taps = self.weight.shape
        return x + F.conv1d(x.T, self.weight[:, None], padding=taps // 2, groups=d).T


class ClsToken(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(d))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, norm = config["d"], NORMS[config["norm"]]
        self.pre_norm = config["pre_norm"]
        self.attn = (CastAttention if config["attention"]["type"] == "cast" else Attention)(config)
        self.conv = Convolution(d, config["conv"]) if config["conv"] else None
        self.conv_residual = config.get("conv_residual", False)
        self.norm1, self.norm2 = norm(d), norm(d)
        self.fc1, self.fc2 = nn.Linear(d, config["d_ff"]), nn.Linear(config["d_ff"], d)
        self.drop_attention, self.drop_ffn = dropout(config, "attention"), dropout(config, "ffn")

    def attend(self, x, lengths):
        """What the residual connection adds to its stream; x [T,d], cut into its documents."""
        documents = x.split(lengths)
        if self.conv:
            documents = [self.conv(document) for document in documents]
        y = self.drop_attention(torch.cat([self.attn(document) for document in documents]))
        return y + (torch.cat(documents) - x) if self.conv_residual else y

    def feed_forward(self, x):
        return self.drop_ffn(self.fc2(F.gelu(self.fc1(x))))

    def forward(self, x, lengths):
        if self.pre_norm:
            x = x + self.attend(self.norm1(x), lengths)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x, lengths))
        return self.norm2(x + self.feed_forward(x))


class Model(nn.Module):
    def __init__(self, config, vocab, classes, documents):
        """config: a config's section "model"; documents: 2 where an example is a pair."""
        super().__init__()
        self.config = config
        d, width = config["d"], config["d_emb"]
        rows = config["max_length"] + (config["pooling"] == "cls")
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(rows, width) if config["positions"] == "learned" else None
        self.cls = ClsToken(width) if config["pooling"] == "cls" else None
        self.proj = nn.Linear(width, d) if width != d else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config["depth"]))
        self.last = NORMS[config["norm"]](d) if config["pre_norm"] else None
        self.fc1 = nn.Linear(4 * d if documents == 2 else d, d)
        self.fc2 = nn.Linear(d, classes)
        self.drop = dropout(config, "embed")

    def embed(self, ids):
        ids = torch.as_tensor(ids, device=self.tok.weight.device)
        if ids.dim() != 1 or not len(ids):
            raise ValueError("a batch is documents, each of one or more token ids")
        ids = ids[: self.config["max_length"]]
        x = self.tok(ids)
        if self.cls:
            x = torch.cat([self.cls.weight[None], x])
        if self.pos:
            x = x + self.pos.weight[: len(x)]
        if self.config["positions"] == "sinusoidal":
            x = x + sinusoidal(*x.shape).to(x)
        x = self.drop(x)
        return self.proj(x) if self.proj else x

    def encode(self, documents):
        """Lists of token ids to vectors [number of documents,d]."""
        embedded = [self.embed(ids) for ids in documents]
        lengths = [len(x) for x in embedded]
        x = torch.cat(embedded)
        for block in self.blocks:
            x = block(x, lengths)
        if self.last:
            x = self.last(x)
        return torch.stack([y[0] if self.cls else y.mean(0) for y in x.split(lengths)])

    def forward(self, examples):
        """Of each example its token ids, or two of these; logits [B,K]."""
        if self.fc1.in_features == self.fc1.out_features:
            z = self.encode(examples)
        else:
            a, b = self.encode([ids for pair in examples for ids in pair]).view(
                len(examples), 2, -1
            ).unbind(1)
            z = torch.cat([a, b, a * b, a - b], 1)
        return self.fc2(F.gelu(self.fc1(z)))


def load(path=None, dtype=None):
    """The model, for evaluation. dtype: to compute in; None: that of the file."""
    here = Path(__file__)
    path = path or here.with_name(here.name.replace("_torch.py", ".safetensors"))
    tensors, metadata = read_safetensors(path)
    if metadata.get("format") != "cast-weights-1":
        raise ValueError(f"{path}: is not what cast_export wrote")
    config = json.loads(metadata["config"])["model"]
    check(config)
    documents = 1 if tensors["fc1.weight"].shape[1] == config["d"] else 2
    vocab, classes = len(tensors["tok.weight"]), len(tensors["fc2.weight"])
    tensors.pop("mask.weight", None)  # of augmentation in training: no document has masked tokens
    model = Model(config, vocab, classes, documents)
    model.to(dtype or tensors["tok.weight"].dtype)
    model.load_state_dict(tensors)
    return model.eval()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} SPLIT.safetensors")
    trained = load()
    torch.set_num_threads(1)  # one document at a time has little to share
    with torch.no_grad():
        right = [trained([x]).argmax().item() == label for x, label in read_split(sys.argv[1])]
    print(f"accuracy {100 * sum(right) / len(right):.2f} %, {len(right)} examples")
