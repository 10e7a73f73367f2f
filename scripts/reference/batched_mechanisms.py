"""The mechanisms that CAST is compared with, for speed: whole batches of equally long sequences,
all heads at once, and nothing that grows faster with N than the mechanism does. A test holds them
to mechanisms.py, whose formulas they follow.

torch.topk promises no order among equal scores; i-clustered's top keys take that liberty.

Shapes: B sequences, N tokens, d = h * e, G = B * h heads of sequences. index_select and index_add,
and their gradients, are fast on rows: [G, N, e] flattened to [G * N, e].
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mechanisms import (
    ClusteredAttention,
    FullAttention,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    LshAttention,
    Mechanism,
    NystromAttention,
    PerformerAttention,
    SmyrfAttention,
)

LEAST_BLOCK = 32  # of queries that share their keys; in smaller ones matrix products are slow


def split_heads(x: Tensor, h: int) -> Tensor:
    """[B, N, d] to [B, h, N, e], a view."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """[B, h, N, e] to [B, N, d]."""
    return x.transpose(1, 2).flatten(2)


def queries_keys_values(attn: Mechanism, x: Tensor) -> list[Tensor]:
    return [split_heads(linear(x), attn.heads) for linear in (attn.q, attn.key, attn.v)]


def full_attention(attn: FullAttention, x: Tensor) -> Tensor:
    return attn.o(merge_heads(F.scaled_dot_product_attention(*queries_keys_values(attn, x))))


def naive_attention(attn: FullAttention, x: Tensor) -> Tensor:
    """The textbook's form, which holds the N x N matrix."""
    q, k, v = queries_keys_values(attn, x)
    weights = torch.softmax(q @ k.mT / attn.tau, dim=-1)
    return attn.o(merge_heads(weights @ v))


def bias_of(seen: Tensor, like: Tensor) -> Tensor:
    """What to add to scores so that only what is seen counts. Finite, so that rows that see nothing
    stay numbers."""
    return torch.zeros(seen.shape, dtype=like.dtype).masked_fill(~seen, -1e30)


def local_attention(attn: LocalAttention, x: Tensor) -> Tensor:
    """Blocks of queries as long as the window reaches, each with its keys and its neighbours'."""
    B, N, d = x.shape
    reach = attn.config.attention.window // 2
    if reach >= N - 1:
        return full_attention(attn, x)
    size = min(max(reach, LEAST_BLOCK), N)
    blocks = math.ceil(N / size)

    def in_blocks(y: Tensor, around: int) -> Tensor:
        """[B, N, d] to [blocks + 2 around, B * h, size, e]."""
        y = F.pad(y, (0, 0, around * size, (blocks + around) * size - N))
        y = y.unflatten(1, (-1, size)).unflatten(3, (attn.heads, -1))
        return y.permute(1, 0, 3, 2, 4).flatten(1, 2)

    def with_neighbours(y: Tensor) -> Tensor:
        return torch.cat([y[:-2], y[1:-1], y[2:]], 2)

    q = in_blocks(attn.q(x), 0)
    k, v = (with_neighbours(in_blocks(y, 1)) for y in (attn.key(x), attn.v(x)))
    i, j = torch.arange(size)[:, None], torch.arange(3 * size) - size
    place = j + size * torch.arange(blocks)[:, None, None]
    seen = ((i - j).abs() <= reach) & (place >= 0) & (place < N)
    result = F.scaled_dot_product_attention(q, k, v, attn_mask=bias_of(seen, q)[:, None])
    result = result.unflatten(1, (B, -1)).permute(1, 0, 3, 2, 4)
    return attn.o(result.reshape(B, blocks * size, d)[:, :N])


# -- Clusters of queries ---------------------------------------------------------------------------


def rows_of(index: Tensor, size: int) -> Tensor:
    """Indices [G, n] into [G, size] as those of the rows of [G * size, ..]."""
    return (index + size * torch.arange(len(index))[:, None]).flatten()


def take(x: Tensor, index: Tensor) -> Tensor:
    """Rows index [G, n] of x [G, size, e]: [G, n, e]."""
    rows = x.flatten(0, 1).index_select(0, rows_of(index, x.shape[1]))
    return rows.view(*index.shape, x.shape[-1])


def sums(x: Tensor, cluster: Tensor, C: int) -> Tensor:
    """Of x [G, N, e] the sums of each cluster's rows, [G, C, e]."""
    G, _, e = x.shape
    rows = rows_of(cluster, C)
    return torch.zeros(G * C, e, dtype=x.dtype).index_add(0, rows, x.flatten(0, 1)).view(G, C, e)


def members(cluster: Tensor, C: int) -> Tensor:
    """How many each cluster has, [G, C]."""
    return rows_of(cluster, C).bincount(minlength=len(cluster) * C).view(-1, C)


def nearest(codes: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Of codes [G, N, bits] of -1 and 1 the clusters [G, N], and the products with their centroids,
    which are bits - 2 distances.

    A product P and a cluster c as one number P C - c: its largest is the first of the nearest. An
    amax is vectorised, and takes an eighth of the time of a max that tells where it is.
    """
    C = centroids.shape[1]
    key = (codes @ (C * centroids).mT).sub_(torch.arange(C)).amax(-1).long()
    product = -(-key).div(C, rounding_mode="floor")
    return product * C - key, product


def hamming_k_means(codes: Tensor, C: int, iterations: int) -> Tensor:
    """Clusters [G, N] of codes [G, N, bits] of -1 and 1."""
    N, bits = codes.shape[1:]
    centroids = codes[:, torch.arange(C) * N // C]
    cluster, product = nearest(codes, centroids)
    for _ in range(iterations - 1):
        moved = torch.where(sums(codes, cluster, C) > 0, 1.0, -1.0).to(codes.dtype)
        empty = members(cluster, C) == 0
        if empty.any():
            # Farthest first, of equals the first: as one number, because topk keeps no order.
            farness = (bits - product) * N - torch.arange(N)
            farthest = farness.topk(int(empty.sum(1).max())).indices
            turn = (empty.cumsum(1) - 1).clamp(0, farthest.shape[1] - 1)
            moved = torch.where(empty[..., None], take(codes, farthest.gather(1, turn)), moved)
        if torch.equal(moved, centroids):
            break
        centroids = moved
        cluster, product = nearest(codes, centroids)
    return cluster


@torch.no_grad()
def query_clusters(attn: ClusteredAttention, q: Tensor) -> tuple[Tensor, int]:
    """q [B, h, N, e] to clusters [G, N], and how many there can be."""
    config = attn.config.attention
    side = q @ attn.planes[..., :-1].mT
    if config.hash_bias:
        side = side - attn.planes[:, None, :, -1]
    codes = (side > 0).to(q.dtype).mul_(2).sub_(1).flatten(0, 1)
    C = min(config.clusters, q.shape[2])
    return hamming_k_means(codes, C, config.iterations), C


def clustered_attention(attn: ClusteredAttention, x: Tensor) -> Tensor:
    q, k, v = queries_keys_values(attn, x)
    cluster, C = query_clusters(attn, q)
    count = members(cluster, C).clamp(min=1)[..., None]  # an empty cluster is taken by nobody
    centroid = (sums(q.flatten(0, 1), cluster, C) / count).view(len(x), attn.heads, C, -1)
    value = F.scaled_dot_product_attention(centroid, k, v)
    return attn.o(merge_heads(take(value.flatten(0, 1), cluster).view_as(q)))


def blocks_of_clusters(cluster: Tensor, C: int, size: int) -> tuple[Tensor, Tensor]:
    """Room for each cluster's queries in blocks of its own: the slot of each query [G, N], and the
    cluster of each block [G, blocks]."""
    G, N = cluster.shape
    count = members(cluster, C)
    blocks = (count + size - 1) // size
    end = blocks.cumsum(1)
    ranked, order = cluster.sort(stable=True)
    first = count.cumsum(1) - count
    start = (end - blocks) * size
    slot = torch.arange(N) + (start - first).gather(1, ranked)
    owner = torch.searchsorted(end, torch.arange(int(end[:, -1].max())).repeat(G, 1), right=True)
    return torch.empty_like(slot).scatter_(1, order, slot), owner.clamp(max=C - 1)


def improved_clustered_attention(attn: ClusteredAttention, x: Tensor) -> Tensor:
    q, k, v = (y.flatten(0, 1) for y in queries_keys_values(attn, x))  # [G, N, e]
    G, N, e = q.shape
    cluster, C = query_clusters(attn, q.view(-1, attn.heads, N, e))
    centroid = sums(q, cluster, C) / members(cluster, C).clamp(min=1)[..., None]
    score = centroid @ k.mT / attn.tau  # [G, C, N]
    top = score.detach().topk(min(attn.config.attention.top_k, N), sorted=False).indices
    weight = torch.softmax(score, -1)
    mass = weight.gather(2, top).sum(2, keepdim=True)
    rest = weight.scatter(2, top, 0.0) @ v  # [G, C, e]

    size = max(min(LEAST_BLOCK, N // C), 1)
    slot, owner = blocks_of_clusters(cluster, C, size)
    blocks = owner.shape[1]
    padded = torch.zeros(G * blocks * size, e, dtype=q.dtype)
    padded = padded.index_copy(0, rows_of(slot, blocks * size), q.flatten(0, 1))
    top = take(top, owner).flatten(1)  # [G, blocks * top_k]
    exact = F.scaled_dot_product_attention(
        padded.view(G, blocks, size, e),
        take(k, top).view(G, blocks, -1, e),
        take(v, top).view(G, blocks, -1, e),
    )
    result = take(exact.flatten(1, 2), slot) * take(mass, cluster) + take(rest, cluster)
    return attn.o(merge_heads(result.view(-1, attn.heads, N, e)))


# -- Sorted tokens in chunks, in several rounds ----------------------------------------------------


def inverse(order: Tensor) -> Tensor:
    place = torch.arange(order.shape[-1]).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, place)


class OneSoftmax(torch.autograd.Function):
    """Attention of queries to the keys that they meet in any round, under one softmax: rounds
    merged by their log-sum-exps. scaled_dot_product_attention keeps these to itself; the kernel
    under it tells them, and its backward pass is right for some of the keys if it is given the
    result and the log-sum-exp of all.

    q [G * rounds, blocks, size, e], k, v [.., keys, e], bias [1, blocks, size, keys]; the order
    [G, rounds, N] in which queries stand in blocks, and that order in blocks [G, rounds, blocks,
    size]. Returns [G, N, e].
    """

    @staticmethod
    def forward(ctx, q, k, v, bias, order, query) -> Tensor:  # noqa: ANN001
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        part, mass = flash(q, k, v, attn_mask=bias)
        part, mass = (unsorted(y.flatten(1, 2), order) for y in (part, mass[..., None]))
        whole = mass.logsumexp(1, keepdim=True)  # [G, 1, N, 1]
        result = (torch.exp(mass - whole) * part).sum(1)
        ctx.save_for_backward(q, k, v, bias, query, result, whole.squeeze(1))
        return result

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:  # noqa: ANN001
        q, k, v, bias, query, result, whole = ctx.saved_tensors
        N = gradient.shape[1]

        def in_rounds(y: Tensor) -> Tensor:
            return take(y, query.flatten(1)).view(len(q), -1, y.shape[-1])

        whole = in_rounds(whole)
        whole[:, N:] = 1e30  # what stands in for missing queries has no part
        gradient, result, whole = (
            y.view(*q.shape[:3], -1) for y in (in_rounds(gradient), in_rounds(result), whole)
        )
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        whole = whole.squeeze(-1)
        dq, dk, dv = flash(gradient, q, k, v, result, whole, 0.0, False, attn_mask=bias)
        return dq, dk, dv, None, None, None


def unsorted(x: Tensor, order: Tensor) -> Tensor:
    """x [G * rounds, N or more, n] in the order [G, rounds, N], back in that of tokens."""
    return take(x, inverse(order.flatten(0, 1))).view(*order.shape, -1)


def attend_in_rounds(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, query: Tensor, key: Tensor, order: Tensor
) -> Tensor:
    """Attention in blocks, in several rounds.

    q, k, v [B, h, N, e]; which tokens are a block's queries [G, rounds, blocks, size] and keys
    [G, rounds, blocks, keys], and whether one sees the other, [blocks, size, keys]; the order
    [G, rounds, N] in which queries are in blocks. Returns [B, h, N, e].
    """

    def gathered(y: Tensor, index: Tensor) -> Tensor:
        """[B, h, N, e] to [G * rounds, blocks, size or keys, e]."""
        y = take(y.flatten(0, 1), index.flatten(1))
        return y.view(-1, *index.shape[2:], y.shape[-1])

    bias = None if seen.all() else bias_of(seen, q)[None]
    parts = gathered(q, query), gathered(k, key), gathered(v, key)
    if order.shape[1] == 1:
        result = F.scaled_dot_product_attention(*parts, attn_mask=bias)
        return unsorted(result.flatten(1, 2), order).view_as(q)
    return OneSoftmax.apply(*parts, bias, order, query).view_as(q)


def in_blocks(order: Tensor, size: int, before: int = 0) -> Tensor:
    """Sorted tokens [G, rounds, N] as [G, rounds, blocks, before + size]: each block, and so many
    before it. Token 0 stands in where there are none."""
    missing = -order.shape[-1] % size
    return F.pad(order, (before, missing)).unfold(-1, before + size, size)


def lsh_attention(attn: LshAttention, x: Tensor) -> Tensor:
    q, v = (split_heads(linear(x), attn.heads) for linear in (attn.q, attn.v))
    N = x.shape[1]
    size = min(attn.config.attention.chunk, N)
    with torch.no_grad():
        side = q[:, :, None] @ attn.rotations.transpose(0, 1)  # [B, h, rounds, N, buckets / 2]
        bucket = torch.cat([side, -side], -1).argmax(-1).flatten(0, 1)
        order = bucket.sort(stable=True).indices  # [G, rounds, N]
        query, key = in_blocks(order, size), in_blocks(order, size, before=size)
        i, j = torch.arange(size)[:, None], torch.arange(2 * size) - size
        place = j + size * torch.arange(query.shape[2])[:, None, None]
        seen = (place >= 0) & (place < N) & ((i != j) | (N == 1))
    length = torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    k = q / length.masked_fill(length == 0, torch.inf)
    return attn.o(merge_heads(attend_in_rounds(q, k, v, seen, query, key, order)))


def smyrf_attention(attn: SmyrfAttention, x: Tensor) -> Tensor:
    q, k, v = queries_keys_values(attn, x)
    N, e = q.shape[2:]
    size = min(attn.config.attention.cluster_size, N)
    with torch.no_grad():
        q2, k2 = q.square().sum(-1), k.square().sum(-1)  # [B, h, N]
        largest = q2.amax(-1, keepdim=True) + k2.amax(-1, keepdim=True)
        directions = attn.directions.transpose(0, 1)  # [h, rounds, e + 2]
        along, of_k, of_q = directions.split([e, 1, 1], -1)

        def order_of(y: Tensor, y2: Tensor, last: Tensor) -> Tensor:
            lift = last * (largest - y2).clamp(min=0).sqrt()[:, :, None]
            return (along @ y.mT + lift).flatten(0, 1).sort(stable=True).indices

        order = order_of(q, q2, of_q)
        query, key = in_blocks(order, size), in_blocks(order_of(k, k2, of_k), size)
        place = torch.arange(query.shape[2] * size).view(-1, 1, size)
        seen = (place < N).expand(-1, size, -1)
    return attn.o(merge_heads(attend_in_rounds(q, k, v, seen, query, key, order)))


# -- Feature maps, fewer keys ----------------------------------------------------------------------


def performer_attention(attn: PerformerAttention, x: Tensor) -> Tensor:
    """The ratio of sums, each feature and each query over its largest, which cancels."""
    q, k, v = queries_keys_values(attn, x)
    features = attn.features / math.sqrt(attn.tau)
    logit = k @ features.mT - k.square().sum(-1, keepdim=True) / (2 * attn.tau)  # [B, h, N, m]
    largest = logit.detach().amax(2, keepdim=True)
    total = logit.sub_(largest).exp_().mT @ F.pad(v, (0, 1), value=1.0)  # [B, h, m, e + 1]
    logit = q @ features.mT + largest
    result = logit.sub_(logit.detach().amax(-1, keepdim=True)).exp_() @ total
    return attn.o(merge_heads(result[..., :-1] / result[..., -1:]))


def elu1(x: Tensor) -> Tensor:
    """Of every x one of the two terms is constant."""
    return x.clamp(max=0).exp() + F.relu(x)


def linear_attention(attn: LinearAttention, x: Tensor) -> Tensor:
    q, k, v = queries_keys_values(attn, x)
    total = elu1(k).mT @ F.pad(v, (0, 1), value=1.0)
    result = elu1(q) @ total  # [B, h, N, e + 1]
    return attn.o(merge_heads(result[..., :-1] / (result[..., -1:] + 1e-6)))


def linformer_attention(attn: LinformerAttention, x: Tensor) -> Tensor:
    E = attn.projection[:, : x.shape[1]]
    q, k, v = (split_heads(y, attn.heads) for y in (attn.q(x), E @ attn.key(x), E @ attn.v(x)))
    return attn.o(merge_heads(F.scaled_dot_product_attention(q, k, v)))


def segment_means(x: Tensor, L: int) -> Tensor:
    """[B, N, d] to [B, L, d]."""
    N = x.shape[1]
    edges = torch.arange(L + 1) * N // L
    if N % L == 0:
        return x.unflatten(1, (L, -1)).mean(2)
    count = edges.diff()
    segment = torch.arange(L).repeat_interleave(count)
    total = torch.zeros(len(x), L, x.shape[2], dtype=x.dtype).index_add(1, segment, x)
    return total / count[:, None]


def convolution(weight: Tensor, v: Tensor, size: int = 64) -> Tensor:
    """Taps [h, kernel] along the tokens of v [B, N, d], as products with a band matrix in blocks of
    tokens: [B, N, d]. A third of conv1d's time at 35 taps."""
    B, N, d = v.shape
    h, taps = weight.shape
    blocks = math.ceil(N / size)
    window = size + taps - 1
    reach = taps // 2
    v = F.pad(v, (0, 0, reach, reach + blocks * size - N)).unfold(1, window, size)
    band = F.pad(weight, (0, size)).repeat(1, size)[:, : size * window].view(h, size, window)
    result = band @ v.unflatten(2, (h, -1)).mT  # [B, blocks, h, size, e]
    return result.transpose(2, 3).reshape(B, blocks * size, d)[:, :N]


def pseudoinverse(A: Tensor, iterations: int) -> Tensor:
    """A [G, L, L]; max's gradient goes to the first of equals."""
    Z = A.mT / A.sum(1).max(1).values[:, None, None]
    eye = torch.eye(A.shape[1], dtype=A.dtype)
    for _ in range(iterations):
        AZ = A @ Z
        inner = torch.baddbmm(15 * eye, AZ, 7 * eye - AZ, alpha=-1)
        Z = Z @ torch.baddbmm(13 / 4 * eye, AZ, inner, alpha=-1 / 4)
    return Z


def nystrom_attention(attn: NystromAttention, x: Tensor) -> Tensor:
    config = attn.config.attention
    projected = attn.q(x), attn.key(x), attn.v(x)
    q, k, v = (split_heads(y, attn.heads) for y in projected)
    if config.landmarks >= x.shape[1]:
        result = F.scaled_dot_product_attention(q, k, v)
    else:
        L = config.landmarks
        landmark_q, landmark_k = (
            split_heads(segment_means(y, L), attn.heads) for y in projected[:2]
        )
        A = torch.softmax(landmark_q @ landmark_k.mT / attn.tau, -1)
        Z = pseudoinverse(A.flatten(0, 1), config.pinv_iterations)
        value = Z.view_as(A) @ F.scaled_dot_product_attention(landmark_q, k, v)
        result = F.scaled_dot_product_attention(q, landmark_k, value)
    result = merge_heads(result)
    if config.conv_kernel:
        result = result + convolution(attn.conv, projected[2])
    return attn.o(result)


ATTENTION = {
    "full": full_attention,
    "naive": naive_attention,
    "local": local_attention,
    "clustered": clustered_attention,
    "i-clustered": improved_clustered_attention,
    "lsh": lsh_attention,
    "smyrf": smyrf_attention,
    "performer": performer_attention,
    "linear": linear_attention,
    "linformer": linformer_attention,
    "nystrom": nystrom_attention,
}
