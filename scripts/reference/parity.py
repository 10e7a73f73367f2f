#!/usr/bin/env python3
"""Holds `cast_step` against this PyTorch model: logits, loss, every gradient, the clusters, and
50 updates of the optimiser, over the table in cases.py.

    parity.py [--program build/double/cast_step] [--float-program build/release/cast_step]
              [--quick] [--only SUBSTRING]

The error of a tensor is max|a - b| / max(max|b|, floor), b being PyTorch's in double. The floor is
a thousandth of the largest gradient for gradients, 0 otherwise. The single precision program gets
inputs of which no rounding can change what is chosen, and a floor of a hundredth for gradients that
are zero but for rounding, such as a bias's before a batch norm. Cases of mechanisms that a program
does not have are skipped, and counted. Exit status 1 if any case fails.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import cases
from cases import Case
from model import ATTENTION, Model
from step import load_model, read_batch, step, train, weights_of

Tensors = dict[str, Tensor]

ROOT = Path(__file__).resolve().parents[2]
DRAWS = 2000
ZERO = 1e-12  # of the largest gradient: what is less is rounding
# Linear attention divides by a sum plus 1e-6, so that its weights do not quite sum to 1: before batch
# norm, which takes a mean away, a value's bias has a gradient of that size alone.
ZERO_OF_LINEAR = 1e-6


class Precision(NamedTuple):
    name: str
    dtype: torch.dtype
    bar: float  # on the errors of one step
    bar_updates: float  # on those after 50 updates
    margin: float  # the least gap between what is chosen and what is not that inputs must have


DOUBLE = Precision("double", torch.float64, 1e-9, 1e-8, 1e-8)
FLOAT = Precision("float", torch.float32, 1e-4, 1e-4, 1e-4)


class Error(NamedTuple):
    value: float
    what: str


class Inputs(NamedTuple):
    weights: Tensors
    batch: Tensors
    expected: Tensors  # PyTorch's answer, in double
    ordered: bool  # whether the order within Top-K's clusters is decided as well


class Failure(Exception):
    """The program did not run, or its output is not what the contract says."""


# -- Running the program ---------------------------------------------------------------------------


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess:
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def must_run(program: Path, *arguments: object) -> None:
    done = run(program, *arguments)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failure(f"exit status {done.returncode}: {last}")


def mechanisms(program: Path) -> list[str]:
    """The rows of the program's table of attention mechanisms."""
    done = run(program.with_name("cast_train"), "--help", "keys")
    return re.findall(r"^  model\.attention\.type=([\w-]+):", done.stdout, re.MULTILINE)


def check_table(program: Path) -> list[str]:
    """The program's mechanisms, every one of which has a model and cases here."""
    compared = {case.config.model.attention.type for case in cases.all_cases()}
    names = mechanisms(program)
    if not names:
        raise SystemExit(f"{program}: cast_train --help keys beside it lists no mechanisms")
    for name in names:
        if name not in ATTENTION or name not in compared:
            raise SystemExit(f"{program}: {name} attention has no model here, or no cases")
    return names


# -- Comparing -------------------------------------------------------------------------------------


def tensor_error(actual: Tensor | None, expected: Tensor, floor: float = 0.0) -> float:
    if actual is None or actual.shape != expected.shape:
        return torch.inf
    if expected.numel() == 0:
        return 0.0
    difference = (actual.double() - expected).abs().max().item()
    scale = max(expected.abs().max().item(), floor)
    if math.isnan(difference):
        return torch.inf
    return difference / scale if scale else (0.0 if difference == 0 else torch.inf)


def slots(table: Tensor, as_sets: bool) -> list[list[int]]:
    """Clusters as lists of tokens, without the empty slots."""
    lists = [[t for t in row if t >= 0] for row in table.flatten(0, -2).tolist()]
    return [sorted(tokens) for tokens in lists] if as_sets else lists


def step_errors(
    actual: Tensors, inputs: Inputs, model: Model, precision: Precision
) -> Iterator[Error]:
    expected = inputs.expected
    kinds = ("grad.", "clusters.", "groups.", "groups_key.")
    names = {name for name in expected if name.startswith(kinds)}
    extra = {name for name in actual if name.startswith(kinds)} - names
    if extra:
        raise Failure(f"unexpected tensor {min(extra)}")
    if "logits" not in actual or actual["logits"].dtype != precision.dtype:
        raise Failure(f"no logits of {precision.dtype}")
    largest = max(w.abs().max().item() for name, w in expected.items() if name.startswith("grad."))
    of_linear = model.config.model.attention.type == "linear" and model.config.model.norm == "batch"
    # Only Top-K says in which order a cluster lists its tokens, and rounding may change it.
    topk = getattr(model.config.model.attention, "mechanism", None) == "topk"
    as_sets = not (topk and inputs.ordered and precision is DOUBLE)
    for name, tensor in expected.items():
        if name.startswith("clusters."):
            same = name in actual and actual[name].shape == tensor.shape
            same = same and slots(actual[name], as_sets) == slots(tensor, as_sets)
            yield Error(0.0 if same else torch.inf, name)
        elif name.startswith("groups"):
            same = name in actual and torch.equal(actual[name], tensor)
            yield Error(0.0 if same else torch.inf, name)
        elif name.startswith("grad."):
            none = ZERO_OF_LINEAR if of_linear and name.endswith(".v.bias") else ZERO
            zero = precision is FLOAT and tensor.abs().max() <= none * largest
            floor = (1e-2 if zero else 1e-3) * largest
            yield Error(tensor_error(actual.get(name), tensor, floor), name)
        else:
            yield Error(tensor_error(actual.get(name), tensor), name)


# -- The checks ------------------------------------------------------------------------------------


def well_conditioned(case: Case, inputs: Inputs) -> bool:
    """Whether PyTorch itself, in single precision, comes well within the bar of its own answer in
    double: some draws have a gradient that is a small difference of large numbers."""
    model = load_model(case.config, inputs.weights, torch.float32)
    actual, _ = step(model, read_batch(inputs.batch))
    return max(step_errors(actual, inputs, model, FLOAT))[0] < FLOAT.bar / 4


def draw_inputs(case: Case, precision: Precision) -> Inputs:
    """Inputs of which all that is chosen is decided by at least the margin."""
    for attempt in range(DRAWS):
        weights, batch = cases.draw(case, attempt, precision.dtype)
        expected, output = step(load_model(case.config, weights), read_batch(batch))
        if not case.ties and cases.least_margin(output, case.config) <= precision.margin:
            continue
        ordered = case.ties or cases.order_margin(output, case.config) > precision.margin
        inputs = Inputs(weights, batch, expected, ordered)
        if precision is DOUBLE or well_conditioned(case, inputs):
            return inputs
    raise Failure(f"no inputs with a margin of {precision.margin} in {DRAWS} draws")


def check_step(case: Case, program: Path, precision: Precision, folder: Path) -> Error:
    return compare_step(case, draw_inputs(case, precision), program, precision, folder)


def check_f32_weights(case: Case, program: Path, precision: Precision, folder: Path) -> Error:
    """Weights in F32 are accepted by either program, and lose nothing."""
    return compare_step(case, draw_inputs(case, FLOAT), program, precision, folder)


def compare_step(
    case: Case, inputs: Inputs, program: Path, precision: Precision, folder: Path
) -> Error:
    write_config(case, folder)
    save_file(inputs.weights, folder / "weights")
    save_file(inputs.batch, folder / "batch")
    files = ["--weights", folder / "weights", "--batch", folder / "batch"]
    must_run(program, folder / "config.json", *files, "--out", folder / "out")
    model = load_model(case.config, inputs.weights)
    return max(step_errors(load_file(folder / "out"), inputs, model, precision))


def check_updates(case: Case, program: Path, precision: Precision, folder: Path) -> Error:
    """Weights after the updates, then logits and loss that they give on the same batch."""
    inputs = draw_inputs(case, precision)
    write_config(case, folder)
    save_file(inputs.weights, folder / "weights")
    save_file(inputs.batch, folder / "batch")
    batch = ["--batch", folder / "batch"]
    config, after = folder / "config.json", folder / "after"
    updates = ["--steps", case.updates, "--weights-out", after, "--out", folder / "out"]
    must_run(program, config, "--weights", folder / "weights", *batch, *updates)
    must_run(program, config, "--weights", after, *batch, "--out", folder / "out")

    model = load_model(case.config, inputs.weights)
    train(model, read_batch(inputs.batch), case.updates)
    expected = weights_of(model)
    final = step(model, read_batch(inputs.batch))[0]
    actual, out = load_file(after), load_file(folder / "out")
    if actual.keys() != expected.keys():
        odd = min(actual.keys() ^ expected.keys())
        raise Failure(f"weights after the updates: {odd} missing or too much")
    errors = [Error(tensor_error(actual[n], w), f"after.{n}") for n, w in expected.items()]
    for name in ("logits", "loss"):
        errors.append(Error(tensor_error(out.get(name), final[name]), f"after.{name}"))
    return max(errors)


def aspects(name: str, w: Tensor) -> Iterator[tuple[str, Tensor]]:
    """What of an initial tensor has a distribution of its own."""
    if name.endswith("planes"):
        yield f"{name}, normals", w[..., :-1]
        yield f"{name}, offsets", w[..., -1]
        return
    yield name, w
    if name.endswith("features"):  # blocks of as many orthogonal rows as these are long
        length = w.norm(dim=-1, keepdim=True)
        yield f"{name}, lengths", length
        unit = w / length
        for block in unit.split(w.shape[-1], dim=1):
            off_diagonal = (block @ block.mT).tril(-1)
            yield f"{name}, angles", off_diagonal.round(decimals=5)


def repeated_rows(weights: Tensors) -> str | None:
    """A mechanism's own parameter that has a row twice: each is drawn for its block and head."""
    found: dict[str, list[Tensor]] = {}
    for name, w in weights.items():
        kind = re.sub(r"\d+", "", name)
        if kind.startswith("blocks..attn.") and w.dim() > 1:
            found.setdefault(kind, []).append(w.flatten(0, -2))
    for kind, tensors in found.items():
        rows = torch.cat(tensors)
        if len(rows.unique(dim=0)) < len(rows):
            return kind
    return None


def alike(value: Tensor, drawn: Tensor) -> bool:
    """Whether two samples of a distribution have the same mean and deviation within 6 standard
    errors; a constant exactly."""
    if drawn.numel() == 1 or drawn.std() == 0:
        return torch.allclose(value, drawn, rtol=1e-6, atol=0)
    spread = drawn.std() * 6 * (2 / drawn.numel()) ** 0.5
    off = max((value.mean() - drawn.mean()).abs(), (value.std() - drawn.std()).abs())
    return bool(off <= spread)


def check_init(case: Case, program: Path, precision: Precision, folder: Path) -> Error:
    """Names and shapes of `--init`; constants exactly; random tensors by their distribution."""
    write_config(case, folder)
    must_run(program, folder / "config.json", "--init", 1, "--weights-out", folder / "weights")
    actual, expected = load_file(folder / "weights"), weights_of(Model(case.config).double())
    if actual.keys() != expected.keys():
        odd = min(actual.keys() ^ expected.keys())
        raise Failure(f"{odd} missing or too much")
    for name, drawn in expected.items():
        if actual[name].shape != drawn.shape:
            raise Failure(f"{name} is {list(actual[name].shape)}, not {list(drawn.shape)}")
    if name := repeated_rows(actual):
        raise Failure(f"{name} has a row twice")
    errors = []
    for name, drawn in expected.items():
        pairs = zip(aspects(name, actual[name].double()), aspects(name, drawn), strict=True)
        for (aspect, a), (_, b) in pairs:
            errors.append(Error(0.0 if alike(a, b) else torch.inf, aspect))
    return max(errors)


def check_refusal(case: Case, program: Path, precision: Precision, folder: Path) -> Error:
    """A length of 0 or above max_length must be an error with a message, not a result."""
    write_config(case, folder)
    weights, batch = cases.draw(case, 0, precision.dtype)
    save_file(weights, folder / "weights")
    beyond = case.config.model.max_length + 1
    tokens = torch.zeros(len(case.lengths), beyond, dtype=torch.int32)
    files = ["--weights", folder / "weights", "--batch", folder / "batch"]
    for length in (0, -1, beyond):
        lengths = batch["lengths"].clone()
        lengths[-1] = length
        save_file(batch | {"tokens": tokens, "lengths": lengths}, folder / "batch")
        done = run(program, folder / "config.json", *files, "--out", folder / "out")
        if done.returncode <= 0 or not done.stderr.strip():
            raise Failure(f"length {length}: exit status {done.returncode}, not refused")
    return Error(0.0, "lengths 0, -1 and above max_length")


def write_config(case: Case, folder: Path) -> None:
    config = case.config.to_json() | {"data": {"dir": str(folder)}}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


class Check(NamedTuple):
    name: str
    case: Case
    call: Callable[[Case, Path, Precision, Path], Error]
    bar: float


def checks(precision: Precision, quick: bool) -> list[Check]:
    found = []
    for case in cases.all_cases():
        if precision is FLOAT and (case.double_only or case.updates):
            continue
        found.append(Check(case.name, case, check_step, precision.bar))
        if case.updates:
            name = f"{case.name}/after"
            found.append(Check(name, case, check_updates, precision.bar_updates))
    for name, keys in cases.INIT.items():
        case = cases.case(f"init/{name}", **keys)
        found.append(Check(case.name, case, check_init, precision.bar))
    for name, call in (("f32-weights", check_f32_weights), ("refusals", check_refusal)):
        found.append(Check(name, cases.case(name, cases.SINGLE), call, precision.bar))
    return found[::7] if quick else found


def check_all(program: Path, precision: Precision, quick: bool, only: str) -> Counter:
    """How many passed, failed, and were skipped because the program has no such mechanism."""
    count, lacks = Counter(), Counter()
    names = check_table(program)
    print(f"{precision.name}: {program}")
    for check in checks(precision, quick):
        kind = check.case.config.model.attention.type
        if only not in check.name:
            continue
        if kind not in names:
            lacks[kind] += 1
            continue
        with tempfile.TemporaryDirectory(prefix="parity.") as folder:
            try:
                error = check.call(check.case, program, precision, Path(folder))
            except (Failure, subprocess.TimeoutExpired, OSError, SafetensorError) as failure:
                error = Error(torch.inf, str(failure))
        good = error.value <= check.bar
        count["passed" if good else "failed"] += 1
        verdict = "ok  " if good else "FAIL"
        print(f"{verdict} {check.name:40} {error.value:8.1e} / {check.bar:.0e}  {error.what}")
    for kind, cases_of_it in lacks.items():
        print(f"skip {kind:40} {cases_of_it} cases: the program has no such mechanism")
    return count + Counter(skipped=lacks.total())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/double/cast_step")
    parser.add_argument("--float-program", type=Path, default=ROOT / "build/release/cast_step")
    parser.add_argument("--quick", action="store_true", help="every seventh case")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="cases by name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    count = Counter()
    for program, precision in ((args.program, DOUBLE), (args.float_program, FLOAT)):
        if not program.is_file():
            print(f"{precision.name}: {program} is not built")
            count["failed"] += 1
            continue
        count += check_all(program.resolve(), precision, args.quick, args.only)
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 0 if count["passed"] and not count["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
