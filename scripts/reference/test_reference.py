#!/usr/bin/env python3
"""Tests of the reference itself: `pytest test_reference.py`, or run it as a program.

The model against finite differences, the batched form against the sequence by sequence one, the
hand-written pieces against PyTorch's, and the specification's small print.
"""

import math
import sys
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

import batched
import cases
import config as configuration
import mechanisms
import model as reference
import shipped
from model import Model
from optim import AdamW, clip_factor, decayed, schedule
from step import forward_loss, load_model, read_batch, step

GRID = list(product(("topk", "sa_topk"), ("softmax", "laplace")))


def tiny(margin: float = 1e-3, **keys: object) -> tuple[cases.Case, Model, dict[str, Tensor]]:
    """A case with random weights and a batch of which all that is chosen is decided clearly."""
    keys = {"lengths": [7, 2], "max_length": 8, "d": 4, "d_ff": 5} | keys
    if keys.get("type", "cast") == "cast":
        keys.setdefault("clusters", 3)
    case = cases.case("test", **keys)
    for attempt in range(100):
        weights, batch = cases.draw(case, attempt, torch.float64)
        model = load_model(case.config, weights)
        output = model(read_batch(batch).documents)
        if cases.least_margin(output, case.config) > margin:
            return case, model, batch
    raise AssertionError("no clear choices")


# -- Gradients -------------------------------------------------------------------------------------


def gradcheck(**keys: object) -> None:
    """Autograd against central differences, clusters held fixed, of everything that trains."""
    _, model, batch = tiny(depth=1, d_emb=3, **keys)
    documents = read_batch(batch).documents
    clusterings = model(documents).clusterings
    members = None
    if model.config.model.attention.type == "cast":
        members = [[clustering.members for clustering in block] for block in clusterings]
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def logits(*values: Tensor) -> Tensor:
        replaced = dict(zip(trained, values, strict=True))
        return torch.func.functional_call(model, replaced, (documents, members)).logits

    assert torch.autograd.gradcheck(logits, tuple(trained.values()), fast_mode=True)


def test_gradients_of_cast() -> None:
    for (mechanism, fn), norm in product(GRID, ("layer", "scale", "batch")):
        gradcheck(mechanism=mechanism, attention_fn=fn, norm=norm)


def test_gradients_of_variants() -> None:
    for keys in (
        {"summaries": False},
        {"intra": False},
        {"surrogates": "frozen"},
        {"pooling": "cls"},
        {"positions": "sinusoidal", "pre_norm": False},
        {"cluster_size": 2, "mechanism": "sa_topk"},
        {"cluster_size": 20, "mechanism": "sa_topk", "attention_fn": "laplace"},
        {"lengths": [[3, 7], [1, 4]]},
        {"type": "full"},
    ):
        gradcheck(**keys)


# -- The batched form ------------------------------------------------------------------------------


def assert_batched_equals(case: cases.Case, model: Model, batch: dict[str, Tensor]) -> None:
    assert_form_equals(case, model, batch, False)
    if getattr(case.config.model.attention, "mechanism", "topk") == "topk":
        assert_form_equals(case, model, batch, True)


def assert_form_equals(
    case: cases.Case, model: Model, batch: dict[str, Tensor], plain: bool
) -> None:
    expected, _ = step(model, read_batch(batch))
    model.zero_grad()
    logits = batched.logits(model, batch["tokens"].long(), plain)
    F.cross_entropy(logits, batch["labels"].long()).backward()
    largest = max(t.abs().max() for name, t in expected.items() if name.startswith("grad."))
    assert torch.allclose(logits, expected["logits"], rtol=1e-10, atol=1e-10), case
    for name, p in model.named_parameters():
        if p.requires_grad:
            off = (p.grad - expected[f"grad.{name}"]).abs().max()
            assert off <= 1e-10 * largest, (name, off, case)


def test_batched_equals_sequence_by_sequence() -> None:
    lengths = {"single": [7] * 3, "pair": [[7, 7]] * 2}
    variants = [
        {},
        {"summaries": False},
        {"intra": False},
        {"pooling": "cls"},
        {"positions": "sinusoidal", "d_emb": 4},
        {"cluster_size": 1},
        {"cluster_size": 2},
        {"cluster_size": 5},
        {"cluster_size": 30},
        {"cluster_size": "length"},
        {"clusters": 1},
        {"clusters": 12, "cluster_size": 1},
    ]
    for keys, (mechanism, fn), documents in product(variants, GRID, lengths):
        options = {"mechanism": mechanism, "attention_fn": fn, "lengths": lengths[documents]}
        assert_batched_equals(*tiny(**options, **keys))
    for norm, pre, kind, documents in product(
        ("layer", "scale", "batch"), (True, False), ("cast", "full", "naive"), lengths
    ):
        options = {"norm": norm, "pre_norm": pre, "type": kind, "lengths": lengths[documents]}
        assert_batched_equals(*tiny(**options))


def test_batched_single_assignment_equals_the_loop() -> None:
    torch.manual_seed(1)
    for N, C, k in product((1, 2, 17, 64), (1, 3, 8), (1, 2, 8, 64)):
        scores = torch.rand(4, N, C).round(decimals=1)  # with ties
        tokens, filled = batched.single_assignment_top_k(scores.transpose(1, 2).contiguous(), k)
        for b in range(4):
            for c, members in enumerate(reference.single_assignment_top_k(scores[b], k)):
                assert tokens[b, c][filled[b, c]].tolist() == members.tolist()


# -- Clustering ------------------------------------------------------------------------------------


def test_ties_go_to_the_lower_index() -> None:
    scores = torch.zeros(5, 2)
    scores[3] = -0.0
    assert [m.tolist() for m in reference.top_k(scores, 3)] == [[0, 1, 2], [0, 1, 2]]
    chosen = reference.single_assignment_top_k(scores, 3)
    assert [m.tolist() for m in chosen] == [[0, 1, 2], [3, 4]]
    with_nan = torch.tensor([math.nan, 1.0, 2.0])
    assert reference.descending(with_nan).tolist() == [2, 1, 0]


def test_single_assignment_takes_the_best_cluster_with_room() -> None:
    scores = torch.tensor([[0.9, 0.8], [1.0, 0.1], [0.5, 0.2], [0.3, 0.6]])
    chosen = reference.single_assignment_top_k(scores, 2)
    assert [m.tolist() for m in chosen] == [[1, 0], [3, 2]]
    leftover = reference.single_assignment_top_k(scores, 1)
    assert [m.tolist() for m in leftover] == [[1], [0]]


def test_single_assignment_gives_every_token_one_cluster() -> None:
    torch.manual_seed(2)
    for N, C in product((1, 5, 24), (1, 4, 7)):
        members = reference.single_assignment_top_k(torch.rand(N, C), math.ceil(N / C))
        assert sorted(torch.cat(members).tolist()) == list(range(N))


def test_wrong_choices_are_told() -> None:
    """By how much, where a cluster has one token of another in exchange."""
    torch.manual_seed(5)
    for N, k in product((30, 31), (4, 6, 10)):  # of five clusters
        scores = torch.rand(N, 5, dtype=torch.float64)
        for choose, error in (
            (reference.top_k, shipped.topk_error),
            (reference.single_assignment_top_k, shipped.sa_error),
        ):
            members = choose(scores, k)
            assert error(reference.Clustering(scores, k, members)) == 0
            of_both = members[0][-1].clone(), members[1][0].clone()
            members[0][-1], members[1][0] = of_both[::-1]
            assert error(reference.Clustering(scores, k, members)) > 1e-3
            members[0] = members[0][:-1]
            assert error(reference.Clustering(scores, k, members)) > 1e-3


def test_one_cluster_of_all_tokens_is_full_attention() -> None:
    _, model, _ = tiny(clusters=1, cluster_size="length")
    cast = model.blocks[0].attn
    full = mechanisms.FullAttention(model.config.model).double()
    full.load_state_dict({n: w for n, w in cast.state_dict().items() if n in full.state_dict()})
    x = torch.randn(7, 4, dtype=torch.float64)
    assert torch.allclose(cast(x, None)[0], full(x)[0], rtol=1e-12, atol=1e-12)


def test_cast_written_with_loops() -> None:
    """Steps 5 to 8 for one token, head and cluster at a time, in plain floating point."""
    for mechanism, fn in GRID:
        _, model, _ = tiny(mechanism=mechanism, attention_fn=fn)
        attn = model.blocks[0].attn
        x = torch.randn(7, 4, dtype=torch.float64)
        with torch.no_grad():
            expected, clustering = attn(x, None)
            assert torch.allclose(attn.o(loops(attn, x, clustering, fn)), expected, rtol=1e-12)


def loops(
    attn: reference.CastAttention, x: Tensor, clustering: reference.Clustering, fn: str
) -> Tensor:
    (N, d), h, C = x.shape, attn.heads, len(clustering.members)
    e = d // h
    tau = math.sqrt(e)
    q, key, v = (linear(x).view(N, h, e).tolist() for linear in (attn.q, attn.key, attn.v))
    s, phi = attn.surrogate.tolist(), attn.phi(x).flatten().tolist()
    mu, sigma = math.sqrt(0.5), math.sqrt(1 / (4 * math.pi))

    def dot(a: list, b: list) -> float:
        return sum(p * r for p, r in zip(a, b, strict=True))

    def f(values: list) -> list:
        if fn == "laplace":
            return [(1 + math.erf((z - mu) / (sigma * math.sqrt(2)))) / 2 for z in values]
        total = sum(math.exp(z) for z in values)
        return [math.exp(z) / total for z in values]

    def softplus1(z: float) -> float:
        return 1 + math.log(1 + math.exp(z))

    result = torch.zeros(N, h, e, dtype=torch.float64)
    for n, a in product(range(N), range(h)):
        mix = f([dot(q[n][a], s[c][a]) * softplus1(phi[n]) / tau for c in range(C)])
        for c in range(C):
            tokens = clustering.members[c].tolist()
            if n in tokens:
                w = f([dot(q[n][a], key[j][a]) / tau for j in tokens])
            else:
                w = f([dot(key[i][a], s[c][a]) * softplus1(-phi[i]) / tau for i in tokens])
            for weight, j in zip(w, tokens, strict=True):
                result[n, a] += mix[c] * weight * torch.tensor(v[j][a], dtype=torch.float64)
    return result.view(N, d)


# -- Norms, positions, functions -------------------------------------------------------------------


def test_batch_norm_is_pytorchs() -> None:
    torch.manual_seed(3)
    x = torch.randn(11, 4, dtype=torch.float64)
    ours, theirs = reference.BatchNorm(4).double(), torch.nn.BatchNorm1d(4).double()
    for _ in range(2):
        assert torch.allclose(ours.train()(x), theirs.train()(x), atol=1e-12)
        ours.commit()
    assert torch.allclose(ours.bn.running_var, theirs.running_var, atol=1e-12)
    assert torch.allclose(ours.bn.running_mean, theirs.running_mean, atol=1e-12)
    assert torch.allclose(ours.eval()(x), theirs.eval()(x), atol=1e-12)
    ours.train()(x[:1])  # a population of one
    ours.commit()
    assert torch.allclose(ours.bn.running_var, theirs.running_var, atol=1e-12)


def test_sinusoidal_positions() -> None:
    position = reference.sinusoidal(5, 7)
    assert position[3, 4] == math.sin(3 / 10000 ** (4 / 7))
    assert abs(position[3, 5] - math.cos(3 / 10000 ** (4 / 7))) < 1e-15
    assert position.shape == (5, 7)


def test_functions_at_the_extremes() -> None:
    x = torch.tensor([-40.0, 0.0, 30.0, 800.0], dtype=torch.float64)
    exact = torch.tensor([1.0, 1 + math.log(2), 31 + math.log1p(math.exp(-30)), 801.0])
    assert torch.allclose(reference.softplus1(x), exact.double(), rtol=1e-12)
    assert reference.laplace(torch.tensor(-2.0), 0) > 0  # 1 + erf is 0 here
    middle = torch.tensor(math.sqrt(0.5), dtype=torch.float64)
    assert abs(reference.laplace(middle, 0) - 0.5) < 1e-15


# -- Optimisation ----------------------------------------------------------------------------------


def test_adamw_and_clipping_are_pytorchs() -> None:
    case, ours, batch = tiny()
    train = case.config.train
    train.lr, train.weight_decay, train.clip = 1e-2, 0.1, 0.5
    theirs = load_model(case.config, ours.state_dict())
    names = decayed(theirs)
    groups = [
        {"params": [p for n, p in theirs.named_parameters() if n in names], "weight_decay": 0.1},
        {"params": [p for n, p in theirs.named_parameters() if n not in names]},
    ]
    torch_optimiser = torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.0)
    optimiser = AdamW(ours, train, horizon=50)
    for _ in range(50):
        forward_loss(ours, read_batch(batch))[1].backward()
        optimiser.update()
        torch_optimiser.zero_grad()
        forward_loss(theirs, read_batch(batch))[1].backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        torch_optimiser.step()
    for name, p in ours.named_parameters():
        assert torch.allclose(p, theirs.get_parameter(name), rtol=1e-9, atol=1e-9), name


def test_decay_touches_linear_weights_only() -> None:
    _, model, _ = tiny(norm="batch", pooling="cls", depth=1, d_emb=3)
    linear = {"q", "key", "v", "o", "phi"}
    expected = {f"blocks.0.attn.{name}.weight" for name in linear}
    expected |= {"blocks.0.fc1.weight", "blocks.0.fc2.weight"}
    expected |= {"fc1.weight", "fc2.weight", "proj.weight"}
    assert decayed(model) == expected


def test_frozen_surrogates_do_not_train() -> None:
    case, model, batch = tiny(surrogates="frozen")
    optimiser = AdamW(model, case.config.train, horizon=1)
    before = model.blocks[0].attn.surrogate.clone()
    forward_loss(model, read_batch(batch))[1].backward()
    optimiser.update()
    assert torch.equal(model.blocks[0].attn.surrogate, before)
    assert "blocks.0.attn.surrogate" not in optimiser.trained


def test_schedules() -> None:
    def at(s: int, **keys: object) -> float:
        return schedule(configuration.Train(**keys), s, 100)

    assert at(7, schedule="constant") == 1
    assert at(5, schedule="constant", warmup=10) == 0.5
    assert at(10, schedule="linear", warmup=10) == 1
    assert at(55, schedule="linear", warmup=10) == 0.5
    assert at(100, schedule="linear", warmup=10) == 0
    assert at(150, schedule="linear", warmup=10) == 0
    assert abs(at(55, schedule="cosine", warmup=10) - 0.5) < 1e-15
    assert at(40, schedule="rsqrt", warmup=10) == 0.5
    assert at(5, schedule="rsqrt", warmup=10) == 0.5


def test_clip_factor() -> None:
    gradients = [torch.tensor([3.0]), torch.tensor([4.0])]
    assert clip_factor(gradients, 0) == 1
    assert clip_factor(gradients, 10) == 1
    assert clip_factor(gradients, 1) == 1 / (5 + 1e-6)


def test_names_and_shapes_are_the_specifications() -> None:
    keys = {"norm": "batch", "depth": 1, "d_emb": 3, "lengths": [[7, 2]]}
    _, model, _ = tiny(**keys)
    shapes = {name: tuple(w.shape) for name, w in model.state_dict().items()}
    expected = {"tok.weight": (257, 3), "pos.weight": (8, 3)}
    expected |= {"proj.weight": (4, 3), "proj.bias": (4,)}
    expected |= {"blocks.0.attn.surrogate": (3, 2, 2)}
    expected |= {"blocks.0.attn.phi.weight": (1, 4), "blocks.0.attn.phi.bias": (1,)}
    for name in ("q", "key", "v", "o"):
        expected[f"blocks.0.attn.{name}.weight"] = (4, 4)
        expected[f"blocks.0.attn.{name}.bias"] = (4,)
    for norm, part in product(
        ("blocks.0.norm1", "blocks.0.norm2", "last"),
        ("weight", "bias", "running_mean", "running_var"),
    ):
        expected[f"{norm}.bn.{part}"] = (4,)
    expected |= {"blocks.0.fc1.weight": (5, 4), "blocks.0.fc1.bias": (5,)}
    expected |= {"blocks.0.fc2.weight": (4, 5), "blocks.0.fc2.bias": (4,)}
    expected |= {"fc1.weight": (4, 16), "fc1.bias": (4,), "fc2.weight": (2, 4), "fc2.bias": (2,)}
    assert shapes == expected


def main(names: dict) -> int:
    torch.set_num_threads(1)
    failed = 0
    tests = [(n, f) for n, f in names.items() if n.startswith("test_")]
    for name, test in tests:
        try:
            test()
            print(f"ok   {name}")
        except (AssertionError, RuntimeError) as error:
            failed += 1
            print(f"FAIL {name}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(globals()))
