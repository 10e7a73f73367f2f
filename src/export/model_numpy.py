#!/usr/bin/env python3
"""Reads what cast_export wrote: a trained model, in NumPy and the standard library alone.

    from NAME_numpy import Model
    model = Model()                       # NAME.safetensors, which lies beside this file
    model.logits([3, 1, 4])               # of a document, its token ids; of a pair: logits(a, b)

    python3 NAME_numpy.py data/listops/test.safetensors     # accuracy on a prepared split

It is written to be read: one document at a time, at its own length, without padding or masks. The
steps of CAST (arXiv:2402.04239) are numbered as in the project's docs/method.md.

Sizes: N tokens of a document, d width, h heads, e = d / h, C clusters, k cluster size, K classes.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

# ---- files ----

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "U8": "u1"}


def read_safetensors(path):
    """The tensors of a file by name, and its metadata."""
    data = Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        count = math.prod(t["shape"])
        flat = np.frombuffer(data, DTYPES[t["dtype"]], count, start + t["data_offsets"][0])
        tensors[name] = flat.reshape(t["shape"])
    return tensors, metadata


def read_split(path):
    """The examples of a prepared split: (documents, label), a pair has two documents."""
    t, _ = read_safetensors(path)
    documents = np.split(t["tokens"], t["offsets"][1:-1])
    for i, label in enumerate(t["labels"]):
        which = t["pairs"][i] if "pairs" in t else [i]
        yield [documents[j].astype(int) & 0xFFFF for j in which], label


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

erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])


def gelu(x):
    return x * ((1 + erf(x / math.sqrt(2))) / 2).astype(x.dtype)


def softmax(x, axis):
    y = np.exp(x - x.max(axis, keepdims=True))
    return y / y.sum(axis, keepdims=True)


def laplace(x, axis):
    """Elementwise, not normalised: `axis` plays no part (arXiv:2209.10655, equation 16)."""
    mu, sigma = math.sqrt(1 / 2), math.sqrt(1 / (4 * math.pi))
    return (erfc((mu - x) / (sigma * math.sqrt(2))) / 2).astype(x.dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus1(x):
    return 1 + np.logaddexp(x, 0).astype(x.dtype)


def descending(x):
    """Indices from the largest to the smallest; equal values by index."""
    return np.argsort(-x, kind="stable")


def top_k(scores, k):
    """Every cluster takes its k best tokens. scores [N,C]; C lists of tokens."""
    return [descending(column)[:k] for column in scores.T]


def single_assignment_top_k(scores, k):
    """By falling best score, each token goes to its best cluster that has room."""
    members = [[] for _ in scores.T]
    for n in descending(scores.max(1)):
        open_clusters = (c for c in descending(scores[n]) if len(members[c]) < k)
        c = next(open_clusters, None)
        if c is not None:
            members[c].append(n)
    return [np.array(tokens, int) for tokens in members]


def sinusoidal(N, d):
    angle = np.arange(N)[:, None] / 10000.0 ** (2 * (np.arange(d) // 2) / d)
    return np.where(np.arange(d) % 2 == 0, np.sin(angle), np.cos(angle))


def turned(x):
    """Rotary positions (arXiv:2104.09864): pairs of columns of x [N,h,e], turned by the place."""
    N, _, e = x.shape
    angle = np.arange(N)[:, None] * 10000.0 ** (-np.arange(0, e, 2) / e)
    cos, sin = (f(angle)[:, None].astype(x.dtype) for f in (np.cos, np.sin))
    y = np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return y


def attend(q, k, v, f):
    """q, k, v [n,h,e] of the tokens that see each other; [n,h,e]. Head by head, to save memory."""
    heads = [f(q[:, i] @ k[:, i].T / math.sqrt(q.shape[2]), 1) @ v[:, i] for i in range(q.shape[1])]
    return np.stack(heads, 1)


# ---- the model ----


class Model:
    def __init__(self, path=None, dtype=None):
        """dtype: to compute in; None: that of the file."""
        here = Path(__file__)
        path = path or here.with_name(here.name.replace("_numpy.py", ".safetensors"))
        tensors, metadata = read_safetensors(path)
        if metadata.get("format") != "cast-weights-1":
            raise ValueError(f"{path}: is not what cast_export wrote")
        self.config = json.loads(metadata["config"])
        self.model = self.config["model"]
        check(self.model)
        self.w = {name: t.astype(dtype or t.dtype) for name, t in tensors.items()}

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        w = self.w
        if self.model["norm"] == "scale":
            length = np.sqrt((x * x).sum(-1, keepdims=True))
            return w[name + ".g"] * x / np.maximum(length, 1e-5)
        if self.model["norm"] == "batch":
            name += ".bn"
            mean, var = w[name + ".running_mean"], w[name + ".running_var"]
        else:
            mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def convolve(self, name, x):
        """Along tokens, each feature with taps of its own; zeros beyond the ends."""
        taps = self.w[name + ".weight"].T
        half = len(taps) // 2
        padded = np.pad(x, ((half, half), (0, 0)))
        return x + sum(tap * padded[t : t + len(x)] for t, tap in enumerate(taps))

    def cluster_size(self, N):
        C, size = (self.model["attention"][key] for key in ("clusters", "cluster_size"))
        if size == "fixed":
            return math.ceil(self.model["max_length"] / C)
        return math.ceil(N / C) if size == "length" else size

    def cast(self, name, x, q, k, v):
        """What goes through the output projection, [N,h,e]; x is the layer's input."""
        a = self.model["attention"]
        f = softmax if a["attention_fn"] == "softmax" else laplace
        S, tau = self.w[name + "surrogate"], math.sqrt(q.shape[2])
        phi = self.linear(name + "phi", x)  # [N,1]

        # Step 2: similarities of queries and keys to the surrogate tokens, [N,h,C].
        a_q, a_k = (np.einsum("nhe,che->nhc", y, S) for y in (q, k))

        # Steps 3 and 4: affinities [N,C], and what each cluster takes.
        f_q, f_k = f(a_q / tau, 2), f(a_k / tau, 2)
        scores = (f_k + sigmoid(phi)[:, None] * (f_q - f_k)).sum(1)
        choose = top_k if a["mechanism"] == "topk" else single_assignment_top_k
        members = choose(scores, self.cluster_size(len(x)))

        # Step 7: how much a token takes from each cluster, [N,h,C].
        mix = f(a_q * softplus1(phi)[:, None] / tau, 2)

        rope = self.model["positions"] == "rope"
        placed_q, placed_k = (turned(q), turned(k)) if rope else (q, k)
        result = np.zeros_like(v)
        for c, tokens in enumerate(members):
            if len(tokens) == 0:
                continue
            # Step 6: the cluster's summary, for all others.
            weight = f(a_k[tokens, :, c] * softplus1(-phi[tokens]) / tau, 0)
            summary = np.einsum("nh,nhe->he", weight, v[tokens])
            # Steps 5 and 8: members take attention's result, all others the summary.
            found = mix[:, :, c, None] * summary if a["summaries"] else np.zeros_like(v)
            found[tokens] = 0
            if a["intra"]:
                intra = attend(placed_q[tokens], placed_k[tokens], v[tokens], f)
                found[tokens] = mix[tokens, :, c, None] * intra
            result += found
        return result

    def attention(self, block, x):
        """What the residual connection adds to its stream."""
        name, given = block + "attn.", x
        if self.model["conv"]:
            x = self.convolve(block + "conv", x)
        N, d = x.shape
        q, k, v = (self.linear(name + p, x) for p in ("q", "key", "v"))
        q, k, v = (y.reshape(N, self.model["heads"], -1) for y in (q, k, v))
        if self.model["attention"]["type"] == "cast":
            result = self.cast(name, x, q, k, v)
        else:
            if self.model["positions"] == "rope":
                q, k = turned(q), turned(k)
            result = attend(q, k, v, softmax)
        y = self.linear(name + "o", result.reshape(N, d))
        return y + (x - given) if self.model.get("conv_residual") else y

    def feed_forward(self, block, x):
        return self.linear(block + "fc2", gelu(self.linear(block + "fc1", x)))

    def embed(self, ids):
        w, model = self.w, self.model
        ids, vocab = np.asarray(ids)[: model["max_length"]], len(w["tok.weight"])
        if ids.ndim != 1 or not ids.size or ids.min() < 0 or ids.max() >= vocab:
            raise ValueError(f"a document is one or more token ids from 0 to {vocab - 1}")
        x = w["tok.weight"][ids]
        if model["pooling"] == "cls":
            x = np.concatenate([w["cls.weight"][None], x])
        if model["positions"] == "learned":
            x = x + w["pos.weight"][: len(x)]
        if model["positions"] == "sinusoidal":
            x = x + sinusoidal(*x.shape).astype(x.dtype)
        return self.linear("proj", x) if "proj.weight" in w else x

    def encode(self, ids):
        """Token ids of a document to a vector [d]."""
        x, pre_norm = self.embed(ids), self.model["pre_norm"]
        for i in range(self.model["depth"]):
            block = f"blocks.{i}."
            if pre_norm:
                x = x + self.attention(block, self.norm(block + "norm1", x))
                x = x + self.feed_forward(block, self.norm(block + "norm2", x))
            else:
                x = self.norm(block + "norm1", x + self.attention(block, x))
                x = self.norm(block + "norm2", x + self.feed_forward(block, x))
        if pre_norm:
            x = self.norm("last", x)
        return x[0] if self.model["pooling"] == "cls" else x.mean(0)

    def logits(self, *documents):
        """[K] of one document, or of a pair where the task has pairs."""
        z = [self.encode(ids) for ids in documents]
        if len(z) == 2:
            z = [z[0], z[1], z[0] * z[1], z[0] - z[1]]
        return self.linear("fc2", gelu(self.linear("fc1", np.concatenate(z))))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} SPLIT.safetensors")
    trained = Model()
    right = [np.argmax(trained.logits(*docs)) == label for docs, label in read_split(sys.argv[1])]
    print(f"accuracy {100 * np.mean(right):.2f} %, {len(right)} examples")
