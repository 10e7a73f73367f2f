#!/usr/bin/env python3
"""Times the training step of PyTorch and of `cast_bench` on one config, in turn.

    speed.py CONFIG [key=value ...] [--threads 2] [--rounds 5] [--bench ./cast_bench]
             [--forms reference,plain,tuned] [--torch-only] [--json]

A step is forward, backward, clipping and AdamW in float32 on a batch of random tokens, all
`max_length` long (the data is random, the work is not: no value of a token makes a step cheaper).
Every round starts each program afresh, in turn, so that all meet the same machine; the figures are
medians over the rounds, with the range, and the peak resident memory of each whole
process, measured alike by the kernel. PyTorch's own libraries are part of that: `torch_import_mb`
says how much.

The machine must be quiet. OpenMP threads that wait for one another spin, so that a single busy
process beside them has slowed PyTorch down 20 times on two cores: a comparison made then would be
worthless. A round in which other processes used over 0.1 cores is therefore thrown away and
repeated, and if that does not help, there is no result.

PyTorch is timed in three forms. `reference`: model.py, which parity.py holds us to, sequence by
sequence at their true lengths. `plain`: the equations on a batch as they stand, the way one writes
a model in PyTorch. `tuned`: as well as we know how to, with fused attention, norms, GELU and AdamW;
tried without gain on CPU: one matrix product for q, k and v, torch.compile. Of mechanisms other than
cast and full both have the tuned attention.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import config as configuration

# This process must not import torch: a child's peak memory includes its parent's until it execs.

ROOT = Path(__file__).resolve().parents[2]
WARM_UP_STEPS = 2
LEAST_STEPS = 3
QUIET_CORES = 0.1
ATTEMPTS = 20


FORMS = ("reference", "plain", "tuned")


def torch_round(path: str, overrides: list[str], threads: int, seconds: float, form: str) -> dict:
    """One round of PyTorch, in the process that measures it."""
    import torch
    import torch.nn.functional as F

    import batched
    from model import Model
    from optim import decayed

    torch_import_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = configuration.load(path, overrides)
    train, shape = config.train, config.shape
    model = Model(config).train()
    names = decayed(model)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    groups = [
        {"params": [p for n, p in trained.items() if (n in names) == decay], "weight_decay": rate}
        for decay, rate in ((True, train.weight_decay), (False, 0.0))
    ]
    optimiser = torch.optim.AdamW(
        groups,
        lr=train.lr,
        betas=(train.beta1, train.beta2),
        eps=train.eps,
        fused=True if form == "tuned" else None,
    )
    pair = (2,) if shape.documents == 2 else ()
    tokens = torch.randint(shape.vocab, (train.batch, *pair, config.model.max_length))
    labels = torch.randint(shape.classes, (train.batch,))

    def logits() -> torch.Tensor:
        if form == "reference":
            return model(list(tokens.flatten(0, -2))).logits
        return batched.logits(model, tokens, plain=form == "plain")

    def step() -> None:
        F.cross_entropy(logits(), labels).backward()
        if train.clip:
            torch.nn.utils.clip_grad_norm_(trained.values(), train.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    for _ in range(WARM_UP_STEPS):
        step()
    times: list[float] = []
    while len(times) < LEAST_STEPS or sum(times) < seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return {
        "samples_per_s": train.batch / statistics.median(times),
        "steps": len(times),
        "torch_import_mb": torch_import_mb,
        "torch_version": torch.__version__,
    }


def busy_seconds() -> float:
    """CPU time that all processes, and other guests of the machine, have used since boot."""
    user, nice, system, _, _, irq, softirq, steal = (
        int(field) for field in Path("/proc/stat").read_text().split()[1:9]
    )
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def run_once(command: list[str], threads: int) -> dict:
    """Runs a program that prints one JSON object; adds its peak resident memory, and how many
    cores everybody else kept busy meanwhile."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    start, busy = time.monotonic(), busy_seconds()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    busy = busy_seconds() - busy - usage.ru_utime - usage.ru_stime
    if process.returncode != 0:
        raise SystemExit(f"speed.py: exit status {process.returncode} of {' '.join(command)}")
    others = max(busy, 0.0) / (time.monotonic() - start)
    return json.loads(output) | {"rss_mb": usage.ru_maxrss / 1024, "other_cores": others}


def measure(command: list[str], threads: int) -> dict:
    """`run_once` on a quiet machine, or not at all."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(5)
        result = run_once(command, threads)
        if result["other_cores"] <= QUIET_CORES:
            return result
        others = f"other processes kept {result['other_cores']:.2f} cores busy"
        print(f"thrown away: {result['samples_per_s']:.3f} samples/s, {others}", file=sys.stderr)
    raise SystemExit("speed.py: the machine is not quiet, so there is nothing to compare")


def summary(rounds: list[dict]) -> dict:
    rates = [r["samples_per_s"] for r in rounds]
    return {
        "samples_per_s": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "rss_mb": statistics.median(r["rss_mb"] for r in rounds),
        "rounds": rounds,
    }


def report(name: str, side: dict, cast: dict | None) -> str:
    line = (
        f"{name:16} {side['samples_per_s']:8.2f} samples/s "
        f"({side['lowest']:.2f} to {side['highest']:.2f}), peak {side['rss_mb']:5.0f} MiB"
    )
    if cast and side is not cast:
        speed = cast["samples_per_s"] / side["samples_per_s"]
        line += f"; cast: {speed:.2f} x the speed, {cast['rss_mb'] / side['rss_mb']:.2f} x the memory"
    return line


def forms_of(text: str) -> list[str]:
    forms = text.split(",")
    if unknown := [form for form in forms if form not in FORMS]:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {', '.join(FORMS)}")
    return forms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="per round of PyTorch")
    parser.add_argument("--bench", type=Path, default=ROOT / "cast_bench")
    parser.add_argument("--forms", type=forms_of, default=FORMS, help="of PyTorch's model")
    parser.add_argument("--torch-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one-torch-round", choices=FORMS, help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    if form := args.one_torch_round:
        print(json.dumps(torch_round(args.config, args.overrides, args.threads, args.seconds, form)))
        return
    if not args.torch_only and not args.bench.is_file():
        raise SystemExit(
            f"speed.py: {args.bench} is not built; build it, name another with --bench, "
            "or time PyTorch alone with --torch-only"
        )

    common = [args.config, *args.overrides, "--threads", str(args.threads)]
    torch = [sys.executable, __file__, *common, "--seconds", str(args.seconds), "--one-torch-round"]
    commands = {f"torch {form}": [*torch, form] for form in args.forms}
    if not args.torch_only:
        commands["cast"] = [str(args.bench.resolve()), *common, "--json"]
    rounds: dict[str, list[dict]] = {name: [] for name in commands}
    for i in range(args.rounds):
        for name, command in commands.items():
            rounds[name].append(measure(command, args.threads))
            rate = rounds[name][-1]["samples_per_s"]
            print(f"round {i + 1}: {name} {rate:.3f} samples/s", file=sys.stderr)
    result = {name: summary(found) for name, found in rounds.items()}
    if args.json:
        print(json.dumps({"threads": args.threads} | result, indent=2))
        return
    for name, side in result.items():
        print(report(name, side, result.get("cast")))


if __name__ == "__main__":
    main()
