"""The model of docs/method.md (CAST, arXiv 2402.04239), for reading.

Everything is written sequence by sequence, each at its true length: there is no padding and no
mask anywhere in this file. Backward passes are autograd's. The mechanisms that CAST is compared
with are in `mechanisms.py`. `batched.py` computes the same thing the way one would for speed, and a
test holds the two together.

Sizes: N tokens of a sequence, T tokens of all sequences of a batch, d model width, h heads,
e = d / h, C clusters, k cluster size. Module names are the parameter names of the safetensors
files: `Model(config).state_dict()` is such a file's content.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from config import Cast, Config
from config import Model as ModelConfig
from mechanisms import COMPARED, Choice, Mechanism, descending, rotated

LAPLACE_MU = math.sqrt(1 / 2)
LAPLACE_SIGMA = math.sqrt(1 / (4 * math.pi))


# -- Attention functions ---------------------------------------------------------------------------


def softmax(x: Tensor, dim: int) -> Tensor:
    return torch.softmax(x, dim)


def laplace(x: Tensor, dim: int) -> Tensor:
    """MEGA's Laplace function, elementwise and not normalised: `dim` plays no part.

    (1 + erf(z)) / 2 written as erfc(-z) / 2, which does not lose the left tail to rounding.
    """
    return torch.erfc((LAPLACE_MU - x) / (LAPLACE_SIGMA * math.sqrt(2))) / 2


ATTENTION_FN = {"softmax": softmax, "laplace": laplace}


def softplus1(x: Tensor) -> Tensor:
    """1 + log(1 + e^x). Not F.softplus, which is off by 2e-9 where it turns linear, at x = 20."""
    return 1 + torch.logaddexp(x, torch.zeros_like(x))


# -- Clustering (step 4) ---------------------------------------------------------------------------


def top_k(scores: Tensor, k: int) -> list[Tensor]:
    """Every cluster takes its k best tokens. scores [N, C]; returns C lists of token indices."""
    return [descending(scores[:, c])[:k] for c in range(scores.shape[1])]


def single_assignment_top_k(scores: Tensor, k: int) -> list[Tensor]:
    """Tokens in descending order of their best score; each to its best cluster that has room."""
    members: list[list[int]] = [[] for _ in range(scores.shape[1])]
    best = scores.nan_to_num(-torch.inf, torch.inf, -torch.inf).amax(dim=1)
    for n in descending(best).tolist():
        for c in descending(scores[n]).tolist():
            if len(members[c]) < k:
                members[c].append(n)
                break
    return [torch.tensor(tokens, dtype=torch.long) for tokens in members]


MECHANISM = {"topk": top_k, "sa_topk": single_assignment_top_k}


def cluster_size(config: ModelConfig, N: int) -> int:
    """The k of a sequence of N tokens (a cluster holds fewer if there are fewer tokens)."""
    C, size = config.attention.clusters, config.attention.cluster_size
    if size == "fixed":
        return math.ceil(config.max_length / C)
    if size == "length":
        return math.ceil(N / C)
    return size


class Clustering(NamedTuple):
    """What step 4 of one attention layer did to one sequence."""

    scores: Tensor  # A_g [N, C]
    k: int
    members: list[Tensor]  # per cluster, its tokens in the order in which it took them


# -- Attention -------------------------------------------------------------------------------------


class CastAttention(nn.Module):
    """Steps 1 to 9 of docs/method.md, on one sequence."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, h = config.d, config.heads
        self.config = config
        self.heads = h
        self.f = ATTENTION_FN[config.attention.attention_fn]
        self.q = nn.Linear(d, d)
        self.key = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)
        self.phi = nn.Linear(d, 1)
        self.surrogate = nn.Parameter(torch.empty(config.attention.clusters, h, d // h))
        if config.attention.surrogates == "frozen":
            self.surrogate.requires_grad_(False)

    def forward(self, x: Tensor, members: list[Tensor] | None) -> tuple[Tensor, Clustering]:
        """x [N, d]. `members` imposes a clustering, which step 4 otherwise chooses."""
        N, d = x.shape
        f, tau = self.f, math.sqrt(d // self.heads)
        ablation: Cast = self.config.attention

        # Step 1: projections, and the token's gate.
        q = self.q(x).view(N, self.heads, -1)
        k = self.key(x).view(N, self.heads, -1)
        v = self.v(x).view(N, self.heads, -1)
        phi = self.phi(x)  # [N, 1]

        # Step 2: similarities to the surrogate tokens, [N, h, C].
        a_q = torch.einsum("nhe,che->nhc", q, self.surrogate)
        a_k = torch.einsum("nhe,che->nhc", k, self.surrogate)

        # Steps 3 and 4: affinity and clustering. The choice is discrete: no gradient.
        with torch.no_grad():
            gate = torch.sigmoid(phi)
            scores = gate * f(a_q / tau, -1).sum(1) + (1 - gate) * f(a_k / tau, -1).sum(1)
            size = cluster_size(self.config, N)
            if members is None:
                members = MECHANISM[ablation.mechanism](scores, size)

        turned_q, turned_k = rotated(q, self.config), rotated(k, self.config)

        # Step 7: how much token n takes from each cluster, [N, h, C].
        mix = f(a_q * softplus1(phi).unsqueeze(-1) / tau, -1)

        result = torch.zeros_like(v)
        for c, tokens in enumerate(members):
            if len(tokens) == 0:  # nothing to take, but the cluster keeps its share of `mix`
                continue
            # Step 5: attention among the cluster's own tokens.
            similarity = torch.einsum("ihe,jhe->hij", turned_q[tokens], turned_k[tokens])
            intra = torch.einsum("hij,jhe->ihe", f(similarity / tau, -1), v[tokens])
            # Step 6: the cluster's summary, for everybody else.
            weight = f(a_k[tokens, :, c] * softplus1(-phi[tokens]) / tau, 0)  # [tokens, h]
            summary = torch.einsum("ih,ihe->he", weight, v[tokens])
            # Step 8: members take the attention's result, all others the summary.
            if ablation.intra:
                result = result.index_add(0, tokens, mix[tokens, :, c, None] * intra)
            if ablation.summaries:
                outside = torch.ones(N, 1, 1, dtype=x.dtype).index_fill(0, tokens, 0)
                result = result + outside * mix[:, :, c, None] * summary

        # Step 9.
        return self.o(result.reshape(N, d)), Clustering(scores, size, members)


ATTENTION = {"cast": CastAttention} | COMPARED


# -- Norms, on the T tokens of all documents of a batch --------------------------------------------


class ScaleNorm(nn.Module):
    """g x / max(|x|, 1e-5): one scalar g, initially sqrt(d)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.tensor(math.sqrt(d)))

    def forward(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return self.g * x / length.clamp(min=1e-5)


class BatchStatistics(nn.Module):
    """Parameters and running statistics of a batch norm."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.bias = nn.Parameter(torch.zeros(d))
        self.register_buffer("running_mean", torch.zeros(d))
        self.register_buffer("running_var", torch.ones(d))


class BatchNorm(nn.Module):
    """Per feature, over one population: all tokens of all documents of the batch.

    The biased variance normalises. A training pass leaves (mean, unbiased variance) in `pending`;
    `Model.commit_statistics` moves it into the running statistics when the weights are updated.
    """

    EPS = 1e-5
    MOMENTUM = 0.1

    def __init__(self, d: int) -> None:
        super().__init__()
        self.bn = BatchStatistics(d)
        self.pending: list[tuple[Tensor, Tensor | None]] = []

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.bn.running_mean, self.bn.running_var
        if self.training:
            T = x.shape[0]
            mean = x.mean(0)
            var = (x - mean).square().mean(0)
            unbiased = var.detach() * T / (T - 1) if T > 1 else None
            self.pending.append((mean.detach(), unbiased))
        return (x - mean) / torch.sqrt(var + self.EPS) * self.bn.weight + self.bn.bias

    def commit(self) -> None:
        for mean, var in self.pending:
            self.bn.running_mean.lerp_(mean, self.MOMENTUM)
            if var is not None:  # a population of one token says nothing about variance
                self.bn.running_var.lerp_(var, self.MOMENTUM)
        self.pending.clear()


NORM = {"layer": nn.LayerNorm, "scale": ScaleNorm, "batch": BatchNorm}  # LayerNorm: eps 1e-5


# -- The model around it ---------------------------------------------------------------------------


def sinusoidal(rows: int, d: int) -> Tensor:
    """pos[n, 2i] = sin(n / 10000^(2i/d)), pos[n, 2i+1] = cos(the same). In double."""
    n = torch.arange(rows, dtype=torch.float64)[:, None]
    i = torch.arange(d) // 2
    angle = n / 10000 ** (2 * i.double() / d)
    return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())


class Token(nn.Module):
    """An embedding of its own: of the cls token, of masked tokens."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(d))


class Convolution(nn.Module):
    """x + conv(x) along tokens, each feature with taps of its own."""

    def __init__(self, d: int, taps: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(d, taps))

    def forward(self, x: Tensor) -> Tensor:
        """x [N, d]."""
        d, taps = self.weight.shape
        return x + F.conv1d(x.T, self.weight[:, None], padding=taps // 2, groups=d).T


class Block(nn.Module):
    """Attention and FFN, each with its residual and its norm before or after."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.attn = ATTENTION[config.attention.type](config)
        if config.conv:
            self.conv = Convolution(config.d, config.conv)
        self.norm1 = NORM[config.norm](config.d)
        self.norm2 = NORM[config.norm](config.d)
        self.fc1 = nn.Linear(config.d, config.d_ff)
        self.fc2 = nn.Linear(config.d_ff, config.d)

    def drop(self, x: Tensor, place: str) -> Tensor:
        return F.dropout(x, self.config.drop(place), self.training)

    def ffn(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(F.gelu(self.fc1(x))), "ffn")

    def attend(
        self, x: Tensor, lengths: list[int], members: list[list[Tensor]] | None
    ) -> tuple[Tensor, list[Clustering]]:
        """x [T, d], cut into documents: attention sees one document at a time. What is added to
        the stream, or in post-norm to x."""
        results, clusterings = [], []
        documents = list(x.split(lengths))
        if self.config.conv:
            documents = [self.conv(document) for document in documents]
        for i, document in enumerate(documents):
            result, clustering = self.attn(document, members[i] if members else None)
            results.append(result)
            clusterings.append(clustering)
        result = self.drop(torch.cat(results), "attention")
        if self.config.conv_residual:
            result = result + (torch.cat(documents) - x)
        return result, clusterings

    def forward(
        self, x: Tensor, lengths: list[int], members: list[list[Tensor]] | None
    ) -> tuple[Tensor, list[Clustering]]:
        if self.config.pre_norm:
            result, clusterings = self.attend(self.norm1(x), lengths, members)
            x = x + result
            x = x + self.ffn(self.norm2(x))
        else:
            result, clusterings = self.attend(x, lengths, members)
            x = self.norm1(x + result)
            x = self.norm2(x + self.ffn(x))
        return x, clusterings


MASKED = -1  # the id of a token that is to be guessed


class Output(NamedTuple):
    logits: Tensor  # [B, classes]; in masked training [masked tokens of all documents, vocab]
    clusterings: list[list[Clustering | Choice | None]]  # [block][document]


class Model(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        m = config.model
        rows = m.max_length + (m.pooling == "cls")
        self.tok = nn.Embedding(config.shape.vocab, m.d_emb)
        if m.positions == "learned":
            self.pos = nn.Embedding(rows, m.d_emb)
        elif m.positions == "sinusoidal":
            self.register_buffer("positions", sinusoidal(rows, m.d_emb), persistent=False)
        if m.pooling == "cls":
            self.cls = Token(m.d_emb)
        if m.d_emb != m.d:
            self.proj = nn.Linear(m.d_emb, m.d)
        self.blocks = nn.ModuleList(Block(m) for _ in range(m.depth))
        if m.pre_norm:
            self.last = NORM[m.norm](m.d)
        if config.train.objective == "masked":
            self.mask = Token(m.d_emb)
            self.lm = nn.Linear(m.d, config.shape.vocab)
        else:
            self.fc1 = nn.Linear(m.d * (4 if config.shape.documents == 2 else 1), m.d)
            self.fc2 = nn.Linear(m.d, config.shape.classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The specification's initial distributions (not its random numbers)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            if isinstance(module, CastAttention):
                nn.init.normal_(module.surrogate, std=module.surrogate.shape[-1] ** -0.5)
            if isinstance(module, Mechanism):
                module.reset_parameters()
        nn.init.normal_(self.tok.weight)
        if self.config.model.tok_init == "smooth":
            rows, columns = self.tok.weight.shape
            angle = torch.arange(rows)[:, None] * torch.randn(columns) * 8 / rows
            phase = 2 * torch.pi * torch.rand(columns)
            self.tok.weight.data = 2**0.5 * torch.cos(angle + phase).to(self.tok.weight.dtype)
        if self.config.model.positions == "learned":
            nn.init.normal_(self.pos.weight, std=0.02)

    @property
    def position_rows(self) -> Tensor:
        if self.config.model.positions == "learned":
            return self.pos.weight
        return self.positions.to(self.tok.weight.dtype)

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens [n] to [N, d_emb]; N = n, or n + 1 with the cls token in front."""
        x = self.tok(tokens.clamp(min=0))
        if self.config.train.objective == "masked":
            x = torch.where(tokens[:, None] == MASKED, self.mask.weight, x)
        if self.config.model.pooling == "cls":
            x = torch.cat([self.cls.weight[None], x])
        if self.config.model.positions == "rope":
            return x
        return x + self.position_rows[: len(x)]

    def pool(self, x: Tensor) -> Tensor:
        """One document [N, d] to its vector [d]."""
        return x[0] if self.config.model.pooling == "cls" else x.mean(0)

    def masked_rows(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Of one document [N, d], what the encoder leaves of its masked tokens."""
        return x[-len(tokens) :][tokens == MASKED]

    def head(self, pooled: Tensor) -> Tensor:
        """Vectors of all documents [B, d], or of pairs [2B, d] as a0 b0 a1 b1 .., to logits."""
        z = pooled
        if self.config.shape.documents == 2:
            a, b = pooled[0::2], pooled[1::2]
            z = torch.cat([a, b, a * b, a - b], dim=1)
        return self.fc2(F.gelu(self.fc1(z)))

    def forward(
        self, documents: list[Tensor], members: list[list[list[Tensor]]] | None = None
    ) -> Output:
        """documents: token ids at their true lengths; of pairs, both in turn.

        `members[block][document]` imposes clusterings, for derivatives at fixed clusters.
        """
        m = self.config.model
        embedded = [self.embed(tokens) for tokens in documents]
        lengths = [len(x) for x in embedded]
        x = F.dropout(torch.cat(embedded), m.drop("embed"), self.training)
        if m.d_emb != m.d:
            x = self.proj(x)
        clusterings = []
        for i, block in enumerate(self.blocks):
            x, chosen = block(x, lengths, members[i] if members else None)
            clusterings.append(chosen)
        if m.pre_norm:
            x = self.last(x)
        encoded = x.split(lengths)
        if self.config.train.objective == "masked":
            rows = [self.masked_rows(*pair) for pair in zip(encoded, documents, strict=True)]
            return Output(self.lm(torch.cat(rows)), clusterings)
        pooled = torch.stack([self.pool(document) for document in encoded])
        return Output(self.head(pooled), clusterings)

    def commit_statistics(self) -> None:
        """Updates batch norms' running statistics; to be called where the weights are updated."""
        for module in self.modules():
            if isinstance(module, BatchNorm):
                module.commit()
