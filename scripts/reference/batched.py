"""The same model for speed: whole batches of equally long sequences, no Python loop over tokens,
clusters or sequences. This is what PyTorch is timed with; a test holds it to `model.py`.

Two forms: what one writes first, the equations on a batch as they stand (`plain`), and, by default,
as fast as we know how to. The mechanisms that CAST is compared with are in batched_mechanisms.py.

It reads the parameters of a `model.Model`, whose formulas it follows by step number. Among equal
scores torch.topk promises no order, which is the one liberty taken with the specification. Tokens
have positions learned or sinusoidal, and blocks no convolution.

Shapes: B sequences (of pairs: 2B), N tokens, d = h * e, C clusters of k slots.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from batched_mechanisms import ATTENTION as COMPARED
from batched_mechanisms import naive_attention, split_heads
from config import Config
from model import (
    ATTENTION_FN,
    BatchNorm,
    Block,
    CastAttention,
    Model,
    ScaleNorm,
    cluster_size,
    softplus1,
)


def top_k(scores: Tensor, k: int) -> tuple[Tensor, None]:
    """scores [B, C, N] to token indices [B, C, k]; every slot is filled."""
    return scores.topk(min(k, scores.shape[-1]), dim=-1).indices, None


def single_assignment_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """scores [B, C, N] to token indices [B, C, k] and which of these slots are filled.

    Tokens choosing one after the other is the same as all proposing at once and every cluster
    keeping its k earliest proposers (all clusters rank tokens alike): those turned away propose
    to their next choice, until nobody is. A few rounds instead of N turns.
    """
    B, C, N = scores.shape
    best = scores.nan_to_num(-torch.inf, torch.inf, -torch.inf).amax(1)
    turn = torch.sort(best, dim=-1, descending=True, stable=True).indices  # [B, N]
    by_turn = scores.gather(2, turn[:, None].expand(B, C, N)).transpose(1, 2)  # [B, N, C]
    preference = torch.sort(by_turn, dim=-1, descending=True, stable=True).indices
    nowhere = torch.full((B, N, 1), C)
    preference = torch.cat([preference, nowhere], dim=-1)
    choice = torch.zeros(B, N, dtype=torch.long)
    while True:
        cluster = preference.gather(2, choice[..., None]).squeeze(-1)
        grouped, proposer = torch.sort(cluster, dim=-1, stable=True)
        first = torch.searchsorted(grouped, torch.arange(C + 1).expand(B, -1).contiguous())
        slot = torch.arange(N) - first.gather(1, grouped)
        refused = (slot >= k) & (grouped < C)
        if not refused.any():
            break
        choice.scatter_add_(1, proposer, refused.long())
    tokens = torch.zeros(B, C + 1, k, dtype=torch.long)
    filled = torch.zeros(B, C + 1, k, dtype=torch.bool)
    placed = grouped < C
    rows = torch.arange(B)[:, None].expand(B, N)[placed]
    where = (rows, grouped[placed], slot[placed])
    tokens[where] = turn.gather(1, proposer)[placed]
    filled[where] = True
    return tokens[:, :C], filled[:, :C]


MECHANISM = {"topk": top_k, "sa_topk": single_assignment_top_k}


def cast_attention(attn: CastAttention, x: Tensor) -> Tensor:
    B, N, d = x.shape
    h, C = attn.heads, attn.surrogate.shape[0]
    config = attn.config.attention
    f = ATTENTION_FN[config.attention_fn]
    tau = math.sqrt(d // h)

    # Steps 1 and 2. Similarities as [B, h, N, C].
    q, k, v, phi = attn.q(x), attn.key(x), attn.v(x), attn.phi(x)
    surrogate = attn.surrogate.permute(1, 2, 0) / tau  # [h, e, C]; every use is over tau
    a_q = split_heads(q, h) @ surrogate
    a_k = split_heads(k, h) @ surrogate

    # Steps 3 and 4.
    with torch.no_grad():
        gate = torch.sigmoid(phi)
        scores = gate * f(a_q, -1).sum(1) + (1 - gate) * f(a_k, -1).sum(1)
        size = cluster_size(attn.config, N)
        tokens, filled = MECHANISM[config.mechanism](scores.transpose(1, 2).contiguous(), size)
        if filled is not None and bool(filled.all()):
            filled = None
        slots = tokens.shape[-1]
        rows = (tokens + N * torch.arange(B)[:, None, None]).flatten()  # into [B * N, ..]

    # Step 5, on clusters as a batch: [B * C, h, k, e].
    def gather(y: Tensor) -> Tensor:
        return split_heads(y.flatten(0, 1).index_select(0, rows).view(B * C, slots, d), h)

    v_c = gather(v)
    if config.intra:
        intra = attend_inside(config.attention_fn, gather(q), gather(k), v_c, filled)

    # Step 6: summaries [B, C, h, e].
    if config.summaries:
        per_slot = tokens[:, None].expand(B, h, C, slots)
        logit = (a_k * softplus1(-phi)[:, None]).transpose(2, 3).gather(3, per_slot)
        if filled is not None and config.attention_fn == "softmax":
            logit = logit.masked_fill(~filled[:, None], -1e30)
        weight = f(logit, -1)
        if filled is not None:
            weight = weight * filled[:, None]
        weight = weight.transpose(1, 2).reshape(B * C, h, 1, slots)
        summary = weight @ v_c  # [B * C, h, 1, e]

    # Steps 7 and 8: everybody takes the summaries, members exchange theirs for the attention.
    mix = f(a_q * softplus1(phi)[:, None], -1)  # [B, h, N, C]
    share = mix.transpose(2, 3).gather(3, tokens[:, None].expand(B, h, C, slots))
    if filled is not None:
        share = share * filled[:, None]
    share = share.transpose(1, 2).reshape(B * C, h, slots, 1)
    if config.intra and config.summaries:
        exchange = share * (intra - summary)
    elif config.intra:
        exchange = share * intra
    else:
        exchange = -share * summary
    exchange = exchange.transpose(1, 2).reshape(-1, d)
    if config.summaries:
        base = mix @ summary.view(B, C, h, -1).transpose(1, 2)
        base = base.transpose(1, 2).reshape(B * N, d)
    else:
        base = torch.zeros_like(x).view(B * N, d)
    result = base.index_add(0, rows, exchange)

    # Step 9.
    return attn.o(result.view(B, N, d))


def plain_cast_attention(attn: CastAttention, x: Tensor) -> Tensor:
    """The equations as they stand, of clusters that are all full: nothing fused or rearranged."""
    B, N, d = x.shape
    C = attn.surrogate.shape[0]
    config = attn.config.attention
    f = ATTENTION_FN[config.attention_fn]
    tau = math.sqrt(d // attn.heads)

    # Steps 1 to 4.
    q, k, v = (linear(x).unflatten(-1, (attn.heads, -1)) for linear in (attn.q, attn.key, attn.v))
    phi = attn.phi(x)
    a_q = torch.einsum("bnhe,che->bnhc", q, attn.surrogate)
    a_k = torch.einsum("bnhe,che->bnhc", k, attn.surrogate)
    with torch.no_grad():
        gate = torch.sigmoid(phi)
        scores = gate * f(a_q / tau, -1).sum(2) + (1 - gate) * f(a_k / tau, -1).sum(2)
        size = cluster_size(attn.config, N)
        tokens, filled = MECHANISM[config.mechanism](scores.transpose(1, 2).contiguous(), size)
        if filled is not None and not filled.all():
            raise ValueError("the plain form wants full clusters: choose sizes so that C k <= N")
        held = x.new_zeros(B, C, N).scatter(2, tokens, 1.0)
    batch = torch.arange(B)[:, None, None]

    # Steps 5 to 8.
    q_c, k_c, v_c = (y[batch, tokens] for y in (q, k, v))  # [B, C, k, h, e]
    similarity = torch.einsum("bcihe,bcjhe->bchij", q_c, k_c)
    intra = torch.einsum("bchij,bcjhe->bcihe", f(similarity / tau, -1), v_c)
    a_k = (a_k * softplus1(-phi).unsqueeze(-1)).permute(0, 3, 1, 2)  # [B, C, N, h]
    weight = f(a_k.gather(2, tokens[..., None].expand(-1, -1, -1, attn.heads)) / tau, 2)
    summary = torch.einsum("bcih,bcihe->bche", weight, v_c)
    mix = f(a_q * softplus1(phi).unsqueeze(-1) / tau, -1)  # [B, N, h, C]
    result = torch.zeros_like(v)
    if config.summaries:
        outside = mix * (1 - held).transpose(1, 2)[:, :, None]
        result = torch.einsum("bnhc,bche->bnhe", outside, summary)
    if config.intra:
        share = mix.permute(0, 3, 1, 2)  # [B, C, N, h]
        share = share.gather(2, tokens[..., None].expand(-1, -1, -1, attn.heads))
        where = tokens.flatten(1)[..., None].expand(-1, -1, d)
        exchange = (share[..., None] * intra).flatten(3).flatten(1, 2)  # [B, C k, d]
        result = result.flatten(2).scatter_add(1, where, exchange)

    # Step 9.
    return attn.o(result.reshape(B, N, d))


def attend_inside(
    attention_fn: str, q: Tensor, k: Tensor, v: Tensor, filled: Tensor | None
) -> Tensor:
    """Attention of each cluster's slots to its filled slots. q, k, v [B * C, h, k, e]."""
    keys = None if filled is None else filled.flatten(0, 1)[:, None, None]
    if attention_fn == "softmax":
        if keys is not None:  # rows of an empty cluster come out finite and are dropped later
            keys = torch.zeros_like(keys, dtype=q.dtype).masked_fill(~keys, -1e30)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keys)
    weights = ATTENTION_FN[attention_fn](q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1)
    if keys is not None:
        weights = weights * keys
    return weights @ v


ATTENTION = {"cast": cast_attention} | COMPARED
PLAIN = ATTENTION | {"cast": plain_cast_attention, "full": naive_attention}


def norm(module: torch.nn.Module, x: Tensor) -> Tensor:
    """The fused form of a norm; running statistics move at once, which changes no result here."""
    if isinstance(module, ScaleNorm):
        return module.g * F.normalize(x, dim=-1, eps=1e-5)
    if isinstance(module, BatchNorm):
        bn = module.bn
        y = F.batch_norm(
            x.flatten(0, 1),
            bn.running_mean,
            bn.running_var,
            bn.weight,
            bn.bias,
            module.training,
            module.MOMENTUM,
            module.EPS,
        )
        return y.view_as(x)
    return module(x)


def block_forward(block: Block, x: Tensor, plain: bool) -> Tensor:
    attend = (PLAIN if plain else ATTENTION)[block.config.attention.type]
    if block.config.pre_norm:
        x = x + block.drop(attend(block.attn, norm(block.norm1, x)), "attention")
        return x + block.ffn(norm(block.norm2, x))
    x = norm(block.norm1, x + block.drop(attend(block.attn, x), "attention"))
    return norm(block.norm2, x + block.ffn(x))


def has(config: Config) -> bool:
    """Whether this computes such a model; it leaves out what no published speed has."""
    m = config.model
    return not m.conv and m.positions != "rope" and config.train.objective != "masked"


def logits(model: Model, tokens: Tensor, plain: bool = False) -> Tensor:
    """tokens [B, N], or [B, 2, N] for pairs, all of full length, to [B, classes]."""
    m = model.config.model
    if not has(model.config):
        raise ValueError("no convolution, rotary positions or masked training in batches")
    x = model.tok(tokens.flatten(0, -2))
    if m.pooling == "cls":
        x = torch.cat([model.cls.weight.expand(len(x), 1, -1), x], dim=1)
    x = F.dropout(x + model.position_rows[: x.shape[1]], m.drop("embed"), model.training)
    if m.d_emb != m.d:
        x = model.proj(x)
    for block in model.blocks:
        x = block_forward(block, x, plain)
    if m.pre_norm:
        x = norm(model.last, x)
    return model.head(x[:, 0] if m.pooling == "cls" else x.mean(1))
