"""The mechanisms that CAST is compared with, for reading: exact attention and nine others.

As in model.py everything is one sequence at its true length, without padding, and backward passes
are autograd's. Where what is clearest takes N x N numbers it does so, whatever the mechanism saves.

Sizes: N tokens, d model width, h heads, e = d / h. A mechanism's random draws are buffers: they are
in the files of weights, but never train. What it chooses (hashes, clusters, sorts) has no gradient.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from config import Model as ModelConfig


def descending(x: Tensor) -> Tensor:
    """Indices of x [n] from the largest to the smallest; equal values by index, NaN last."""
    return torch.sort(-x, stable=True).indices


def rotated(x: Tensor, config: ModelConfig) -> Tensor:
    """Queries or keys [N, h, e] as they multiply each other: with rotary positions, pairs of columns
    as complex numbers times e^(i n 10000^(-2i/e))."""
    if config.positions != "rope":
        return x
    N, _, e = x.shape
    speed = 10000 ** (-torch.arange(0, e, 2, dtype=torch.float64) / e)
    angle = torch.arange(N, dtype=torch.float64)[:, None] * speed
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex(x[0, 0], x[0, 0]).dtype)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn[:, None]).flatten(-2)


class Heads(NamedTuple):
    """What attention sees of one sequence, each [h, N, e]."""

    q: Tensor  # with rotary positions turned, as is k: what multiplies a query by a key sees these
    k: Tensor
    v: Tensor
    plain_q: Tensor  # never turned: what chooses sees these
    plain_k: Tensor


class Choice(NamedTuple):
    """What a mechanism chose in one sequence."""

    chosen: list[Tensor]
    gap: float  # the least by which a number that decided would have to change to decide otherwise
    groups: Tensor | None = None  # [rounds, h, N]: the group of each query
    groups_key: Tensor | None = None  # and of each key, where these are grouped apart


class Mechanism(nn.Module):
    """The projections, in and out. Between them stands what a mechanism defines: `attend`."""

    HAS_KEYS = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.heads = config.heads
        self.q = nn.Linear(config.d, config.d)
        if self.HAS_KEYS:
            self.key = nn.Linear(config.d, config.d)
        self.v = nn.Linear(config.d, config.d)
        self.o = nn.Linear(config.d, config.d)

    def forward(self, x: Tensor, members: None = None) -> tuple[Tensor, Choice | None]:
        """x [N, d]."""
        N, d = x.shape
        q = self.q(x).view(N, self.heads, -1)
        k = self.key(x).view(N, self.heads, -1) if self.HAS_KEYS else q
        v = self.v(x).view(N, self.heads, -1)
        seen = (rotated(q, self.config), rotated(k, self.config), v, q, k)
        result, choice = self.attend(Heads(*(y.transpose(0, 1) for y in seen)))
        return self.o(result.transpose(0, 1).reshape(N, d)), choice

    def attend(self, x: Heads) -> tuple[Tensor, Choice | None]:
        """What goes through o, [h, N, e], and what was chosen, if anything."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Draws what the mechanism has besides the projections."""

    @property
    def tau(self) -> float:
        return math.sqrt(self.config.d // self.heads)


class FullAttention(Mechanism):
    """Softmax attention, exact: `full`, and `naive`, which is the same mathematics."""

    def attend(self, x: Heads) -> tuple[Tensor, None]:
        return torch.softmax(x.q @ x.k.mT / self.tau, -1) @ x.v, None


class LocalAttention(Mechanism):
    """A sliding window (Longformer, arXiv 2004.05150): |i - j| <= floor(window / 2).

    LRA's code for its baseline of this name attends to tokens a stride apart instead.
    """

    def attend(self, x: Heads) -> tuple[Tensor, None]:
        n = torch.arange(x.q.shape[1])
        far = (n[:, None] - n).abs() > self.config.attention.window // 2
        scores = (x.q @ x.k.mT / self.tau).masked_fill(far, -torch.inf)
        return torch.softmax(scores, -1) @ x.v, None


# -- Clusters of queries ---------------------------------------------------------------------------


def nearest(codes: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Of every code the nearest centroid in Hamming distance, the first of equals; and how near."""
    distance = torch.cdist(codes.double(), centroids.double(), p=0)  # [N, C]: how many bits differ
    cluster = distance.argmin(1)
    return cluster, distance.gather(1, cluster[:, None]).squeeze(1)


def majorities(codes: Tensor, cluster: Tensor, distance: Tensor, C: int) -> Tensor:
    """Centroids [C, bits]: of each bit what more than half of the members have set.

    Clusters without members take, in turn, the codes that were farthest from their centroids.
    """
    farthest = iter(codes[descending(distance)])
    centroids = []
    for c in range(C):
        own = codes[cluster == c]
        centroids.append(2 * own.sum(0) > len(own) if len(own) else next(farthest))
    return torch.stack(centroids)


def hamming_k_means(codes: Tensor, C: int, iterations: int) -> Tensor:
    """Cluster [N] of each of codes [N, bits]: `iterations` assignments, updates between them."""
    N = len(codes)
    centroids = codes[[j * N // C for j in range(C)]]
    cluster, distance = nearest(codes, centroids)
    for _ in range(iterations - 1):
        centroids = majorities(codes, cluster, distance, C)
        cluster, distance = nearest(codes, centroids)
    return cluster


class ClusteredAttention(Mechanism):
    """Queries that hash alike attend as their mean does (Vyas, Katharopoulos, Fleuret 2020, arXiv
    2007.04825). The paper's code starts K-means from the first C queries instead, and draws bits
    for clusters that are empty."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        bits, e = config.attention.bits, config.d // config.heads
        self.register_buffer("planes", torch.empty(config.heads, bits, e + 1))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.planes)
        if not self.config.attention.hash_bias:
            self.planes[..., -1] = 0

    def clusters(self, queries: Tensor) -> tuple[Tensor, float]:
        """Cluster [h, N] of each query, and how far the nearest query is from a plane."""
        config = self.config.attention
        side = queries @ self.planes[..., :-1].mT  # [h, N, bits]
        if config.hash_bias:
            side = side - self.planes[:, None, :, -1]
        C = min(config.clusters, queries.shape[1])
        cluster = [hamming_k_means(codes, C, config.iterations) for codes in side > 0]
        return torch.stack(cluster), side.abs().min().item()

    def attend(self, x: Heads) -> tuple[Tensor, Choice]:
        with torch.no_grad():
            clusters, gap = self.clusters(x.plain_q)
        heads = []
        for q, k, v, cluster in zip(x.q, x.k, x.v, clusters, strict=True):
            held = F.one_hot(cluster).T.to(q.dtype)  # [C, N]
            held = held[held.any(1)]
            centroid = held @ q / held.sum(1, keepdim=True)
            heads.append(held.T @ (torch.softmax(centroid @ k.T / self.tau, -1) @ v))
        return torch.stack(heads), Choice([clusters], gap, clusters[None])


class ImprovedClusteredAttention(ClusteredAttention):
    """Queries attend exactly to the keys that their centroid likes best, with the mass that it
    gives these, and as the centroid does to all others (the same paper)."""

    def attend(self, x: Heads) -> tuple[Tensor, Choice]:
        with torch.no_grad():
            clusters, gap = self.clusters(x.plain_q)
        heads, chosen = [], [clusters]
        for q, k, v, cluster in zip(x.q, x.k, x.v, clusters, strict=True):
            result = torch.zeros_like(v)
            for c in cluster.unique():
                tokens = (cluster == c).nonzero().squeeze(1)
                score = q[tokens].mean(0) @ k.T  # [N]
                ranked = descending(score.detach())
                top, rest = ranked.tensor_split([self.config.attention.top_k])
                if len(rest):
                    gap = min(gap, (score[top[-1]] - score[rest[0]]).item())
                weight = torch.softmax(score / self.tau, -1)
                exact = torch.softmax(q[tokens] @ k[top].T / self.tau, -1) @ v[top]
                row = weight[top].sum() * exact + weight[rest] @ v[rest]
                result = result.index_add(0, tokens, row)
                chosen.append(top)
            heads.append(result)
        return torch.stack(heads), Choice(chosen, gap, clusters[None])


# -- Sorted tokens in chunks, in several rounds ----------------------------------------------------


def sorted_chunks(value: Tensor, size: int) -> tuple[Tensor, float]:
    """The chunk of each token where tokens are sorted by value [.., N], equal ones by index, NaN
    last, and cut into chunks; and the least gap between the values of neighbours in two chunks."""
    N = value.shape[-1]
    ranked, order = torch.sort(value, stable=True)
    gaps = ranked[..., size::size] - ranked[..., size - 1 : N - 1 : size]
    return order.argsort() // size, gaps.min().item() if gaps.numel() else math.inf


def attend_in_rounds(score: Tensor, sees: Tensor, v: Tensor) -> Tensor:
    """Each round's attention to what it sees [rounds, h, N, N], weighted by the softmax over rounds
    of the log-sum-exps. score [h, N, N], v [h, N, e]."""
    seen = score.masked_fill(~sees, -torch.inf)
    share = torch.softmax(torch.logsumexp(seen, -1), 0)  # [rounds, h, N]
    return (share[..., None] * (torch.softmax(seen, -1) @ v)).sum(0)


class LshAttention(Mechanism):
    """Queries, which are keys as well, attend to those near them in a sort by hash (Reformer, arXiv
    2001.04451). The first chunk sees itself only; other implementations show it the last."""

    HAS_KEYS = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        rounds, half = config.attention.rounds, config.attention.buckets // 2
        e = config.d // config.heads
        self.register_buffer("rotations", torch.empty(rounds, config.heads, e, half))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.rotations)

    def chunks(self, queries: Tensor) -> tuple[Tensor, Tensor, float]:
        """Bucket and chunk of each query, both [rounds, h, N]."""
        side = queries @ self.rotations
        side = torch.cat([side, -side], -1)
        best = side.topk(2).values
        bucket = side.argmax(-1)  # of equals the first
        chunk, _ = sorted_chunks(bucket, self.config.attention.chunk)
        return bucket, chunk, (best[..., 0] - best[..., 1]).min().item()

    def attend(self, x: Heads) -> tuple[Tensor, Choice]:
        N = x.q.shape[1]
        with torch.no_grad():
            bucket, chunk, gap = self.chunks(x.plain_q)
            back = chunk[..., :, None] - chunk[..., None, :]
            sees = (back == 0) | (back == 1)
            if N > 1:
                sees &= ~torch.eye(N, dtype=torch.bool)
        length = torch.linalg.vector_norm(x.q, dim=-1, keepdim=True)
        k = x.q / length.masked_fill(length == 0, torch.inf)  # 0, and no gradient, of a zero query
        score = x.q @ k.mT / self.tau
        return attend_in_rounds(score, sees, x.v), Choice([bucket, chunk], gap, chunk)


class SmyrfAttention(Mechanism):
    """Queries and keys, each sorted by a projection under which large products lie near each other,
    attend chunk by chunk (arXiv 2010.05315)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        rounds, e = config.attention.rounds, config.d // config.heads
        self.register_buffer("directions", torch.empty(rounds, config.heads, e + 2))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.directions)

    def chunks(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        """Chunk of each query and of each key, both [rounds, h, N]."""
        q2, k2 = q.square().sum(-1, keepdim=True), k.square().sum(-1, keepdim=True)
        largest = q2.amax(1, keepdim=True) + k2.amax(1, keepdim=True)
        zero = torch.zeros_like(q2)
        q = torch.cat([q, zero, (largest - q2).clamp(min=0).sqrt()], -1)
        k = torch.cat([k, (largest - k2).clamp(min=0).sqrt(), zero], -1)
        size = self.config.attention.cluster_size
        of_q, gap_q = sorted_chunks(torch.einsum("hne,rhe->rhn", q, self.directions), size)
        of_k, gap_k = sorted_chunks(torch.einsum("hne,rhe->rhn", k, self.directions), size)
        return of_q, of_k, min(gap_q, gap_k)

    def attend(self, x: Heads) -> tuple[Tensor, Choice]:
        with torch.no_grad():
            of_q, of_k, gap = self.chunks(x.plain_q, x.plain_k)
            sees = of_q[..., :, None] == of_k[..., None, :]
        score = x.q @ x.k.mT / self.tau
        return attend_in_rounds(score, sees, x.v), Choice([of_q, of_k], gap, of_q, of_k)


# -- Feature maps ----------------------------------------------------------------------------------


def orthogonal_rows(m: int, e: int) -> Tensor:
    """[m, e]: blocks of e orthogonal rows, each row as long as a normal vector of its own."""
    blocks = []
    for _ in range(math.ceil(m / e)):
        q, r = torch.linalg.qr(torch.randn(e, e))
        blocks.append((q * r.diagonal().sign()).T)
    return torch.cat(blocks)[:m] * torch.randn(m, e).norm(dim=1, keepdim=True)


class PerformerAttention(Mechanism):
    """Positive random features of the softmax kernel (FAVOR+, arXiv 2009.14794).

    With phi_f(x) = exp(w_f x - |x|^2 / 2) a query takes from feature f, in proportion to
    phi_f(q) sum_j phi_f(k_j), the mean of the values by phi_f(k_j): two softmaxes, in the second of
    which |q|^2 / 2 cancels. LRA's Performer has by default ReLU features without a projection.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        e = config.d // config.heads
        m = config.attention.features or max(8, math.ceil(e * math.log(e)))
        self.register_buffer("features", torch.empty(config.heads, m, e))

    def reset_parameters(self) -> None:
        h, m, e = self.features.shape
        self.features.copy_(torch.stack([orthogonal_rows(m, e) for _ in range(h)]))

    def attend(self, x: Heads) -> tuple[Tensor, None]:
        q, k = x.q / math.sqrt(self.tau), x.k / math.sqrt(self.tau)
        logit = self.features @ k.mT - k.square().sum(-1)[:, None] / 2  # [h, m, N]
        value = torch.softmax(logit, -1) @ x.v  # [h, m, e]
        mass = torch.logsumexp(logit, -1)  # [h, m]
        return torch.softmax(q @ self.features.mT + mass[:, None], -1) @ value, None


def elu1(x: Tensor) -> Tensor:
    """elu(x) + 1: x + 1 above 0, e^x below. Through e^x - 1 the left tail loses its digits."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


class LinearAttention(Mechanism):
    """The kernel phi(q) phi(k) with phi = elu + 1 (arXiv 2006.16236)."""

    def attend(self, x: Heads) -> tuple[Tensor, None]:
        q, k = elu1(x.q), elu1(x.k)
        mass = q @ k.sum(1)[..., None]  # [h, N, 1]
        return q @ (k.mT @ x.v) / (mass + 1e-6), None


# -- Fewer keys ------------------------------------------------------------------------------------


class LinformerAttention(Mechanism):
    """Keys and values of all heads projected along tokens by one matrix (arXiv 2006.04768); a
    shorter sequence has its first columns."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        tokens = config.max_length + (config.pooling == "cls")
        self.projection = nn.Parameter(torch.empty(config.attention.rank, tokens))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.projection, std=0.02)

    def attend(self, x: Heads) -> tuple[Tensor, None]:
        E = self.projection[:, : x.k.shape[1]]
        return torch.softmax(x.q @ (E @ x.k).mT / self.tau, -1) @ (E @ x.v), None


def pseudoinverse(A: Tensor, iterations: int) -> tuple[Tensor, Choice]:
    """The iteration of arXiv 2102.03902 for each of the softmax matrices A [h, L, L].

    It starts from A^T / (|A|_1 |A|_inf), of each matrix alone and not, as in the paper's code, from
    the largest norms of the batch. |A|_inf, the largest sum of a row, is 1; of |A|_1, the largest
    sum of a column, the gradient goes through the first column that attains it.
    """
    sums = A.sum(1)  # [h, L]
    best = sums.detach().topk(min(2, A.shape[1])).values
    gap = (best[:, 0] - best[:, 1]).min().item() if A.shape[1] > 1 else math.inf
    column = torch.stack([descending(row)[:1] for row in sums.detach()])  # [h, 1]
    Z = A.mT / sums.gather(1, column)[..., None]
    eye = torch.eye(A.shape[1], dtype=A.dtype)
    for _ in range(iterations):
        AZ = A @ Z
        Z = Z @ (13 * eye - AZ @ (15 * eye - AZ @ (7 * eye - AZ))) / 4
    return Z, Choice([column], gap)


class NystromAttention(Mechanism):
    """Attention through landmarks, means of segments (arXiv 2102.03902), and a convolution of the
    values. Not a mean of values: where scores are sharp it is far from exact attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        if config.attention.conv_kernel:
            self.conv = nn.Parameter(torch.empty(config.heads, config.attention.conv_kernel))

    def reset_parameters(self) -> None:
        if self.config.attention.conv_kernel:
            bound = self.config.attention.conv_kernel**-0.5
            nn.init.uniform_(self.conv, -bound, bound)

    def attend(self, x: Heads) -> tuple[Tensor, Choice | None]:
        q, k = x.q / math.sqrt(self.tau), x.k / math.sqrt(self.tau)
        L, choice = self.config.attention.landmarks, None
        if L >= q.shape[1]:
            result = torch.softmax(q @ k.mT, -1) @ x.v
        else:
            landmark_q, landmark_k = self.landmarks(q, L), self.landmarks(k, L)
            Z, choice = pseudoinverse(
                torch.softmax(landmark_q @ landmark_k.mT, -1), self.config.attention.pinv_iterations
            )
            landmark_v = torch.softmax(landmark_q @ k.mT, -1) @ x.v
            result = torch.softmax(q @ landmark_k.mT, -1) @ (Z @ landmark_v)
        return result + self.convolution(x.v), choice

    def landmarks(self, x: Tensor, L: int) -> Tensor:
        """Means [h, L, e] of the L segments of x [h, N, e]."""
        edges = [j * x.shape[1] // L for j in range(L + 1)]
        return torch.stack([x[:, a:b].mean(1) for a, b in pairwise(edges)], 1)

    def convolution(self, v: Tensor) -> Tensor:
        """Along tokens, with taps of each head, 0 beyond the ends. v [h, N, e]."""
        taps = self.config.attention.conv_kernel
        if not taps:
            return torch.zeros_like(v)
        columns = v.permute(2, 0, 1)  # [e, h, N]
        y = F.conv1d(columns, self.conv[:, None], padding=taps // 2, groups=self.heads)
        return y.permute(1, 2, 0)


COMPARED = {
    "full": FullAttention,
    "naive": FullAttention,
    "local": LocalAttention,
    "clustered": ClusteredAttention,
    "i-clustered": ImprovedClusteredAttention,
    "lsh": LshAttention,
    "smyrf": SmyrfAttention,
    "performer": PerformerAttention,
    "linear": LinearAttention,
    "linformer": LinformerAttention,
    "nystrom": NystromAttention,
}
