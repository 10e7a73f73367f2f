#!/usr/bin/env python3
"""Tests of the nine mechanisms that CAST is compared with: `pytest test_mechanisms.py`, or run it.

Against finite differences, against plain loops, in the cases in which each is exact attention, and
the batched form against the sequence by sequence one.
"""

import math
import sys
from itertools import product

import torch
from torch import Tensor

import batched_mechanisms
import cases
import config as configuration
import mechanisms
from mechanisms import COMPARED, Heads, Mechanism
from optim import decayed
from test_reference import assert_form_equals, gradcheck, main, tiny

KEYS = {
    "local": {"window": 3},
    "clustered": {"clusters": 3, "bits": 4, "iterations": 3},
    "i-clustered": {"clusters": 3, "bits": 4, "iterations": 3, "top_k": 2},
    "lsh": {"rounds": 2, "buckets": 4, "chunk": 2},
    "smyrf": {"rounds": 2, "cluster_size": 3},
    "performer": {"features": 3},
    "linear": {},
    "linformer": {"rank": 3},
    "nystrom": {"landmarks": 3, "conv_kernel": 3},
}
DRAWS = ("planes", "rotations", "directions", "features")


def attention(kind: str, like: Mechanism | None = None, **keys: object) -> Mechanism:
    """A mechanism of random weights; of those that it shares with `like`, like's."""
    case = cases.case("test", [9], **({"type": kind, "d": 8, "max_length": 40} | keys))
    attn = COMPARED[kind](case.config.model).double()
    for p in attn.parameters():
        torch.nn.init.normal_(p, std=0.5)
    attn.reset_parameters()
    if like is not None:
        shared = {n: w for n, w in like.state_dict().items() if n in attn.state_dict()}
        attn.load_state_dict(shared, strict=False)
    return attn


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-11, atol=1e-11)


def tokens(N: int, d: int = 8) -> Tensor:
    return torch.randn(N, d, dtype=torch.float64)


def is_full(attn: Mechanism, x: Tensor, positions: str = "learned") -> bool:
    return close(attn(x)[0], attention("full", attn, positions=positions)(x)[0])


# -- Gradients -------------------------------------------------------------------------------------


def test_gradients() -> None:
    """Where every choice is clear, so that no small difference changes it."""
    for kind, keys in KEYS.items():
        for around in (
            {},
            {"positions": "rope", "task": "image", "pre_norm": False},
            {"pooling": "cls", "norm": "scale", "lengths": [[3, 6], [1, 4]]},
        ):
            gradcheck(type=kind, **keys, **around)


def test_gradients_at_the_ends_of_keys() -> None:
    for kind, keys in (
        ("local", {"window": 1}),
        ("clustered", {"clusters": 20, "bits": 2}),
        ("i-clustered", {"top_k": 20, "clusters": 2}),
        ("i-clustered", {"top_k": 1, "clusters": 1, "bits": 1}),
        ("lsh", {"chunk": 20}),
        ("lsh", {"chunk": 6, "rounds": 3, "buckets": 2}),
        ("smyrf", {"cluster_size": 1}),
        ("performer", {"features": 0}),
        ("linformer", {"rank": 20}),
        ("nystrom", {"landmarks": 1, "conv_kernel": 0}),
        ("nystrom", {"landmarks": 6, "pinv_iterations": 1, "conv_kernel": 1}),
        ("nystrom", {"landmarks": 20, "conv_kernel": 35}),
    ):
        gradcheck(type=kind, **(KEYS[kind] | keys))


def test_a_zero_query_is_a_zero_key_without_a_gradient() -> None:
    q, v = torch.randn(2, 2, 7, 4, dtype=torch.float64)
    q[:, 2] = 0
    q.requires_grad_()
    result, _ = attention("lsh", chunk=30).attend(Heads(q, q, v, q, q))
    result[:, 3:].sum().backward()
    assert torch.isfinite(q.grad).all() and q.grad[:, 1].abs().min() > 0
    assert not q.grad[:, 2].any()


# -- Where they are exact --------------------------------------------------------------------------


def test_a_window_over_all_tokens_is_full() -> None:
    for positions in ("learned", "rope"):
        assert is_full(attention("local", window=18, positions=positions), tokens(9), positions)
    assert is_full(attention("local", window=17), tokens(9))  # the ends see each other
    assert not is_full(attention("local", window=15), tokens(9))


def test_clusters_of_equal_queries_are_full() -> None:
    x = tokens(4).repeat_interleave(3, 0)
    attn = attention("clustered", clusters=4, bits=63)
    assert is_full(attn, x)
    assert not is_full(attn, tokens(12))
    assert is_full(attention("i-clustered", clusters=4, bits=63, top_k=2), x)


def test_a_cluster_for_every_query_is_full() -> None:
    for positions in ("learned", "rope"):
        attn = attention("clustered", clusters=40, bits=63, positions=positions)
        assert is_full(attn, tokens(9), positions)


def test_all_keys_among_the_top_are_full() -> None:
    for top_k, positions in product((9, 30), ("learned", "rope")):
        attn = attention("i-clustered", top_k=top_k, clusters=3, positions=positions)
        assert is_full(attn, tokens(9), positions)
    assert not is_full(attention("i-clustered", top_k=8, clusters=3), tokens(9))


def test_one_cluster_of_sorted_tokens_is_full() -> None:
    for size, positions in product((9, 30), ("learned", "rope")):
        attn = attention("smyrf", cluster_size=size, rounds=3, positions=positions)
        assert is_full(attn, tokens(9), positions)
    assert not is_full(attention("smyrf", cluster_size=8, rounds=3), tokens(9))


def test_a_projection_to_the_same_tokens_is_full() -> None:
    for positions in ("learned", "rope"):
        attn = attention("linformer", rank=9, positions=positions)
        with torch.no_grad():
            attn.projection[:, :9] = torch.eye(9).flip(0)
        assert is_full(attn, tokens(9), positions)


def test_landmarks_for_all_tokens_are_full_and_the_convolution() -> None:
    x = tokens(9)
    for landmarks, kernel in product((9, 30), (0, 1, 5, 35)):
        attn = attention("nystrom", landmarks=landmarks, conv_kernel=kernel)
        v = attn.v(x).view(9, 2, 4)
        expected = torch.zeros(9, 2, 4, dtype=torch.float64)
        for i, a, t in product(range(9), range(2), range(kernel)):
            j = i + t - (kernel - 1) // 2
            if 0 <= j < 9:
                expected[i, a] += attn.conv[a, t] * v[j, a]
        full = attention("full", attn)(x)[0]
        assert close(attn(x)[0], full + expected.flatten(1) @ attn.o.weight.T)


def test_one_token_takes_its_own_value() -> None:
    x = tokens(1)
    for kind in ("local", "clustered", "i-clustered", "lsh", "smyrf", "performer"):
        attn = attention(kind)
        assert close(attn(x)[0], attn.o(attn.v(x))), kind


def test_i_clustered_is_as_near_to_full_as_clustered() -> None:
    """The paper's theorem: in the L1 distance of every query's weights. With values that are the
    unit vectors, what is attended to is the weights."""
    for seed, top_k in product(range(10), (1, 3, 8)):
        torch.manual_seed(seed)
        q, k = torch.randn(2, 2, 17, 4, dtype=torch.float64) * 2
        heads = Heads(q, k, torch.eye(17, dtype=torch.float64).expand(2, 17, 17), q, k)
        clustered = attention("clustered", clusters=3)
        improved = attention("i-clustered", clustered, clusters=3, top_k=top_k)
        exact = attention("full").attend(heads)[0]
        far = [(a.attend(heads)[0] - exact).abs().sum(-1) for a in (clustered, improved)]
        assert (far[1] <= far[0] + 1e-12).all()
        assert close(improved.attend(heads)[0].sum(-1), torch.ones(2, 17).double())


def test_performer_converges_to_full() -> None:
    """As m^-1/2, at queries and keys of variance 1/16."""
    torch.manual_seed(1)
    sizes, errors = (16, 64, 256, 1024), []
    inputs = [torch.randn(3, 2, 20, 8, dtype=torch.float64) for _ in range(20)]
    for m in sizes:
        total = 0.0
        for q, k, v in inputs:
            heads = Heads(q / 4, k / 4, v, q / 4, k / 4)
            attn = attention("performer", d=16, features=m)
            full = attention("full", d=16).attend(heads)[0]
            total += (attn.attend(heads)[0] - full).square().mean().item()
        errors.append(math.sqrt(total / len(inputs)))
    slope = math.log(errors[-1] / errors[0]) / math.log(sizes[-1] / sizes[0])
    assert -0.6 < slope < -0.4, (slope, errors)


def test_performer_is_the_ratio_of_sums() -> None:
    q, k, v = torch.randn(3, 2, 11, 4, dtype=torch.float64)
    attn = attention("performer", features=10)

    def phi(x: Tensor) -> Tensor:
        x = x * 4**-0.25
        return torch.exp(x @ attn.features.mT - x.square().sum(-1, keepdim=True) / 2)

    mass = phi(q) @ phi(k).sum(1)[..., None]
    assert close(attn.attend(Heads(q, k, v, q, k))[0], phi(q) @ (phi(k).mT @ v) / mass)
    far = attn.attend(Heads(90 * q, -90 * k, v, q, k))[0]  # here the ratio is 0 / 0
    assert torch.isfinite(far).all()


def test_performers_features_are_orthogonal_in_blocks() -> None:
    features = attention("performer", d=12, heads=2, features=9).features  # [2, 9, 6]
    for block in (features[:, :6], features[:, 6:]):
        product_of_rows = block @ block.mT
        off_diagonal = product_of_rows - product_of_rows.diagonal(dim1=1, dim2=2).diag_embed()
        assert off_diagonal.abs().max() < 1e-5
    assert (features[:, :3] @ features[:, 6:].mT).abs().min() > 1e-5
    for width, m in ((1, 8), (4, 8), (8, 17), (64, 267)):  # e ln e is 5.5, 16.6, 266.2
        assert attention("performer", d=width, heads=1, features=0).features.shape[1] == m


# -- K-means in Hamming space ----------------------------------------------------------------------


def codes(*words: str) -> Tensor:
    return torch.tensor([[letter == "1" for letter in word] for word in words])


def test_k_means_starts_from_codes_spread_over_the_sequence() -> None:
    words = codes("0000", "1111", "1100", "0011", "0111")
    # C = 2 of N = 5: the first code and the one at floor(5 / 2). 1111 is nearer to 1100.
    assert mechanisms.hamming_k_means(words, 2, 1).tolist() == [0, 1, 1, 0, 0]


def test_k_means_ties() -> None:
    words = codes("0011", "1100", "0101")
    # 0101 is as far from either of the first two.
    assert mechanisms.hamming_k_means(words, 2, 1).tolist() == [0, 1, 0]
    # Of 0011 and 0101 the majority is 0001: a bit that half of the members have is 0.
    cluster = torch.tensor([0, 1, 0])
    assert torch.equal(
        mechanisms.majorities(words, cluster, torch.zeros(3, dtype=torch.long), 2),
        codes("0001", "1100"),
    )


def test_empty_clusters_take_the_farthest_codes() -> None:
    words = codes("0000", "0001", "0111", "1111", "0000")
    cluster, distance = torch.tensor([1, 1, 1, 1, 1]), torch.tensor([0, 1, 3, 3, 0])
    found = mechanisms.majorities(words, cluster, distance, 4)
    assert torch.equal(found, codes("0111", "0001", "1111", "0001"))


def test_codes_are_the_sides_of_planes() -> None:
    q = tokens(12, 4).expand(2, 12, 4)
    for bits, bias in product((1, 5, 64), (True, False)):
        attn = attention("clustered", clusters=12, bits=bits, hash_bias=bias, iterations=1)
        assert bias == bool(attn.planes[..., -1].any())
        torch.nn.init.normal_(attn.planes)
        words = [
            [int(dot(x, p[:-1]) > (p[-1] if bias else 0)) for p in attn.planes[1].tolist()]
            for x in q[1].tolist()
        ]
        clusters, _ = attn.clusters(q)
        assert clusters[1].tolist() == k_means_in_plain_loops(words, 12, 1)


def test_k_means_in_plain_loops() -> None:
    torch.manual_seed(4)
    for N, C, bits, iterations in product((1, 2, 13, 40), (1, 3, 12), (1, 2, 7, 64), (1, 2, 6)):
        words = torch.rand(N, bits) < 0.5
        C = min(C, N)
        expected = k_means_in_plain_loops(words.int().tolist(), C, iterations)
        assert mechanisms.hamming_k_means(words, C, iterations).tolist() == expected


def k_means_in_plain_loops(words: list, C: int, iterations: int) -> list[int]:
    N = len(words)

    def far(a: list, b: list) -> int:
        return sum(p != r for p, r in zip(a, b, strict=True))

    centroids = [words[math.floor(j * N / C)] for j in range(C)]
    for update in range(iterations):
        if update:
            order = sorted(range(N), key=lambda n: -far(words[n], centroids[cluster[n]]))
            moved = []
            for c in range(C):
                own = [words[n] for n in range(N) if cluster[n] == c]
                if own:
                    moved.append([int(sum(bit) > len(own) / 2) for bit in zip(*own, strict=True)])
                else:
                    moved.append(words[order.pop(0)])
            centroids = moved
        cluster = [min(range(C), key=lambda c: (far(word, centroids[c]), c)) for word in words]
    return cluster


# -- Against plain loops ---------------------------------------------------------------------------


def weighted(pairs: list[tuple[float, list]]) -> tuple[list, float]:
    """Softmax attention to (score, value) pairs, and the log-sum-exp."""
    largest = max(score for score, _ in pairs)
    total = sum(math.exp(score - largest) for score, _ in pairs)
    e = len(pairs[0][1])
    mean = [sum(math.exp(s - largest) / total * v[c] for s, v in pairs) for c in range(e)]
    return mean, largest + math.log(total)


def dot(a: list, b: list) -> float:
    return sum(p * r for p, r in zip(a, b, strict=True))


def merged(rounds: list[tuple[list, float]]) -> list:
    return weighted([(mass, mean) for mean, mass in rounds])[0]


def random_heads(N: int, attn: Mechanism) -> Heads:
    """Queries and keys turned, as by rotary positions, though not by angles of positions."""
    q, k, v = torch.randn(3, 2, N, 4, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(N, 4, 4, dtype=torch.float64)).Q
    turned_q, turned_k = (torch.einsum("nef,hnf->hne", turn, y) for y in (q, k))
    return Heads(turned_q, turned_k if attn.HAS_KEYS else turned_q, v, q, k if attn.HAS_KEYS else q)


def test_lsh_in_plain_loops() -> None:
    torch.manual_seed(5)
    for N, rounds, buckets, chunk in product((1, 2, 9, 21), (1, 3), (2, 8), (2, 4, 30)):
        attn = attention("lsh", rounds=rounds, buckets=buckets, chunk=chunk)
        heads = random_heads(N, attn)
        expected = [lsh_in_plain_loops(attn, heads, a, chunk) for a in range(2)]
        assert close(attn.attend(heads)[0], torch.tensor(expected, dtype=torch.float64))


def lsh_in_plain_loops(attn: Mechanism, heads: Heads, a: int, chunk: int) -> list:
    q, v, plain = (y[a].tolist() for y in (heads.q, heads.v, heads.plain_q))
    N, found = len(q), []
    for rotation in attn.rotations[:, a].mT.tolist():
        bucket = []
        for x in plain:
            side = [dot(x, r) for r in rotation]
            side += [-s for s in side]
            bucket.append(side.index(max(side)))
        order = sorted(range(N), key=lambda n: (bucket[n], n))
        row = [None] * N
        for place, i in enumerate(order):
            first = max(place // chunk - 1, 0) * chunk
            seen = [j for j in order[first : (place // chunk + 1) * chunk] if j != i or N == 1]
            scores = [dot(q[i], q[j]) / math.sqrt(dot(q[j], q[j])) / 2 for j in seen]
            row[i] = weighted([(s, v[j]) for s, j in zip(scores, seen, strict=True)])
        found.append(row)
    return [merged(rounds) for rounds in zip(*found, strict=True)]


def test_smyrf_in_plain_loops() -> None:
    torch.manual_seed(6)
    for N, rounds, size in product((1, 2, 9, 21), (1, 3), (1, 4, 30)):
        attn = attention("smyrf", rounds=rounds, cluster_size=size)
        heads = random_heads(N, attn)
        expected = [smyrf_in_plain_loops(attn, heads, a, size) for a in range(2)]
        assert close(attn.attend(heads)[0], torch.tensor(expected, dtype=torch.float64))


def smyrf_in_plain_loops(attn: Mechanism, heads: Heads, a: int, size: int) -> list:
    q, k, v, plain_q, plain_k = (y[a].tolist() for y in heads)
    N, found = len(q), []
    most_q, most_k = (max(math.sqrt(dot(x, x)) for x in plain) for plain in (plain_q, plain_k))

    def rest(x: list) -> float:
        return math.sqrt(max(0.0, most_q**2 + most_k**2 - dot(x, x)))

    for direction in attn.directions[:, a].tolist():
        along_q = [dot([*x, 0.0, rest(x)], direction) for x in plain_q]
        along_k = [dot([*x, rest(x), 0.0], direction) for x in plain_k]
        queries = sorted(range(N), key=lambda n: along_q[n])
        keys = sorted(range(N), key=lambda n: along_k[n])
        row = [None] * N
        for place, i in enumerate(queries):
            first = place // size * size
            row[i] = weighted([(dot(q[i], k[j]) / 2, v[j]) for j in keys[first : first + size]])
        found.append(row)
    return [merged(rounds) for rounds in zip(*found, strict=True)]


def test_linear_in_plain_loops() -> None:
    attn = attention("linear")
    heads = random_heads(9, attn)
    q, k, v = heads.q[1].tolist(), heads.k[1].tolist(), heads.v[1].tolist()

    def phi(x: list) -> list:
        return [t + 1 if t > 0 else math.exp(t) for t in x]

    weight = [dot(phi(q[3]), phi(x)) for x in k]
    mass = sum(weight) + 1e-6
    expected = [sum(w * x[c] for w, x in zip(weight, v, strict=True)) / mass for c in range(4)]
    assert close(attn.attend(heads)[0][1, 3], torch.tensor(expected, dtype=torch.float64))


def test_elu_plus_one_at_the_extremes() -> None:
    x = torch.tensor([-800.0, -17.0, -0.0, 0.0, 800.0], requires_grad=True)
    y = mechanisms.elu1(x)
    y.sum().backward()
    assert y.tolist() == [0, torch.tensor(-17.0).exp().item(), 1, 1, 801]
    assert x.grad.tolist() == [0, torch.tensor(-17.0).exp().item(), 1, 1, 1]


# -- Nystrom's iteration ---------------------------------------------------------------------------


def test_the_iteration_converges_to_the_inverse() -> None:
    A = torch.softmax(3 * torch.randn(5, 4, 4, dtype=torch.float64), -1)
    Z, _ = mechanisms.pseudoinverse(A, 40)
    assert torch.allclose(Z, torch.linalg.inv(A), rtol=1e-6, atol=1e-6)


def one_step(A: Tensor, column: int) -> Tensor:
    eye = torch.eye(len(A), dtype=A.dtype)
    Z = A.T / A[:, column].sum()
    inner = 7 * eye - A @ Z
    middle = 15 * eye - A @ Z @ inner
    return Z @ (13 * eye - A @ Z @ middle) / 4


def test_the_iteration_step_by_step() -> None:
    A = torch.tensor([[0.3, 0.7], [0.4, 0.6]], dtype=torch.float64)
    Z, choice = mechanisms.pseudoinverse(A[None], 1)
    assert close(Z[0], one_step(A, 1))
    assert choice.chosen[0].tolist() == [[1]]
    assert abs(choice.gap - 0.6) < 1e-12


def test_the_norms_gradient_goes_through_the_first_of_equal_columns() -> None:
    rows = [[0.25, 0.625, 0.125], [0.625, 0.125, 0.25], [0.375, 0.5, 0.125]]
    A = torch.tensor(rows, dtype=torch.float64, requires_grad=True)  # sums 1.25, 1.25, 0.5
    Z, choice = mechanisms.pseudoinverse(A[None], 1)
    gradient = torch.autograd.grad(Z.square().sum(), A)[0]
    first, second = (
        torch.autograd.grad(one_step(A, column).square().sum(), A)[0] for column in (0, 1)
    )
    assert choice.gap == 0
    assert close(gradient, first)
    assert not close(first, second)


def test_segments_of_landmarks() -> None:
    attn = attention("nystrom", landmarks=3, conv_kernel=0)
    means = attn.landmarks(torch.arange(7.0).view(1, 7, 1), 3)  # 0 1 | 2 3 | 4 5 6
    assert means.flatten().tolist() == [0.5, 2.5, 5.0]


# -- The batched form ------------------------------------------------------------------------------


def test_batched_equals_sequence_by_sequence() -> None:
    for kind, lengths in product(KEYS, ([1] * 2, [13] * 3, [[7, 7]] * 2)):
        around = {"d": 8, "heads": 8, "pooling": "cls"}
        for keys in ({}, around, *cases.KEYS.get(kind, {}).values()):
            keys = {"type": kind, "lengths": lengths, "max_length": 13} | keys
            assert_form_equals(*tiny(1e-9, **keys), False)


def test_batched_in_several_blocks() -> None:
    for kind, keys in (
        ("local", {"window": 1}),
        ("local", {"window": 6}),
        ("local", {"window": 81}),
        ("local", {"window": 197}),
        ("clustered", {"clusters": 12, "bits": 6}),
        ("i-clustered", {"clusters": 12, "bits": 6}),
        ("i-clustered", {"clusters": 2, "bits": 6}),
        ("lsh", {"rounds": 4}),
        ("smyrf", {"cluster_size": 32}),
        ("performer", {}),
        ("linformer", {}),
        ("nystrom", {"landmarks": 30}),
        ("nystrom", {"landmarks": 20}),
    ):
        case = tiny(1e-9, type=kind, lengths=[100] * 2, max_length=100, depth=1, **keys)
        assert_form_equals(*case, False)


def test_batched_where_scores_are_sharp() -> None:
    """Where most weights are 0: what is chosen is chosen by scores, and no sum is 0."""
    for (kind, keys), seed in product(KEYS.items(), range(20)):
        torch.manual_seed(seed)
        attn = attention(kind, **keys)
        with torch.no_grad():
            attn.q.weight *= 1000
            x = tokens(13)
            result = batched_mechanisms.ATTENTION[kind](attn, x[None])[0]
            assert torch.allclose(result, attn(x)[0], rtol=1e-8, atol=1e-8), kind


# -- Parameters, positions, keys -------------------------------------------------------------------


def test_names_and_shapes_are_the_specifications() -> None:
    projections = {f"{n}.{part}" for n in ("q", "key", "v", "o") for part in ("weight", "bias")}
    own = {
        "clustered": {"planes": (2, 63, 5)},
        "i-clustered": {"planes": (2, 63, 5)},
        "lsh": {"rotations": (3, 2, 4, 32)},
        "smyrf": {"directions": (3, 2, 6)},
        "performer": {"features": (2, 8, 4)},
        "linformer": {"projection": (256, 41)},
        "nystrom": {"conv": (2, 35)},
    }
    for kind in KEYS:
        keys = {"rounds": 3} if kind in ("lsh", "smyrf") else {}
        papers = vars(configuration.ATTENTION[kind]()) | keys
        attn = attention(kind, **papers, pooling="cls")
        expected = projections - ({"key.weight", "key.bias"} if kind == "lsh" else set())
        shapes = {n: tuple(w.shape) for n, w in attn.state_dict().items()}
        assert {n: s for n, s in shapes.items() if n not in projections} == own.get(kind, {}), kind
        assert shapes.keys() - own.get(kind, {}).keys() == expected
        trained = {n for n, _ in attn.named_parameters()}
        assert trained == {n for n in shapes if n not in DRAWS}


def test_decay_touches_linear_maps_of_their_own() -> None:
    for kind, own in (("linformer", {"projection"}), ("nystrom", {"conv"}), ("clustered", set())):
        _, model, _ = tiny(type=kind, depth=1, d_emb=4, **KEYS[kind])
        expected = {f"blocks.0.attn.{n}.weight" for n in ("q", "key", "v", "o")}
        expected |= {f"blocks.0.attn.{n}" for n in own}
        expected |= {"blocks.0.fc1.weight", "blocks.0.fc2.weight", "fc1.weight", "fc2.weight"}
        assert decayed(model) == expected
    _, model, _ = tiny(type="nystrom", depth=1, d_emb=4, conv_kernel=0)
    assert "blocks.0.attn.conv" not in decayed(model)


def test_rotary_positions_turn_queries_and_keys() -> None:
    attn, x = attention("full", positions="rope"), tokens(5)

    def turned(row: Tensor, n: int) -> list:
        found = []
        for i, (a, b) in enumerate(row.view(-1, 2).tolist()):
            angle = n * 10000 ** (-2 * i / 4)
            found += [a * math.cos(angle) - b * math.sin(angle)]
            found += [a * math.sin(angle) + b * math.cos(angle)]
        return found

    q, k, v = (linear(x).view(5, 2, 4) for linear in (attn.q, attn.key, attn.v))
    result = torch.zeros(5, 2, 4, dtype=torch.float64)
    for i, a in product(range(5), range(2)):
        query = turned(q[i, a], i)
        pairs = [(dot(query, turned(k[j, a], j)) / 2, v[j, a].tolist()) for j in range(5)]
        result[i, a] = torch.tensor(weighted(pairs)[0], dtype=torch.float64)
    assert close(attn(x)[0], attn.o(result.view(5, 8)))


def test_choices_see_no_positions() -> None:
    x = tokens(13)
    for kind in ("clustered", "lsh", "smyrf"):
        plain = attention(kind, **KEYS[kind])
        turned = attention(kind, plain, positions="rope", **KEYS[kind])
        (a, chosen), (b, as_chosen) = plain(x), turned(x)
        assert all(map(torch.equal, chosen.chosen, as_chosen.chosen)), kind
        assert not close(a, b)


def test_bad_values_are_errors() -> None:
    for keys in (
        {"type": "lsh", "buckets": 7},
        {"type": "lsh", "buckets": 0},
        {"type": "lsh", "chunk": 1},
        {"type": "clustered", "bits": 65},
        {"type": "i-clustered", "bits": 0},
        {"type": "i-clustered", "top_k": 0},
        {"type": "smyrf", "cluster_size": "fixed"},
        {"type": "performer", "features": -1},
        {"type": "nystrom", "conv_kernel": 4},
        {"type": "nystrom", "landmarks": 2.5},
        {"type": "local", "window": True},
        {"type": "linformer", "clusters": 4},
        {"type": "linear", "features": 4},
        {"type": "reformer"},
    ):
        try:
            configuration.from_json({"task": "text", "model": {"attention": keys}})
        except (ValueError, TypeError):
            continue
        raise AssertionError(keys)


def test_a_config_writes_the_mechanisms_keys_alone() -> None:
    for kind in configuration.ATTENTION:
        config = configuration.from_json({"task": "text", "model": {"attention": {"type": kind}}})
        written = config.to_json()["model"]["attention"]
        assert written == vars(config.model.attention)
        assert configuration.from_json(config.to_json()) == config


if __name__ == "__main__":
    sys.exit(main(globals()))
