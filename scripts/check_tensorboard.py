#!/usr/bin/env python3
"""Holds a run's event files, as TensorBoard reads them, against its metrics.jsonl.

    check_tensorboard.py RUN...     needs: pip install tensorboard
"""
import json
import sys
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

KEYS = {"train": ["loss", "accuracy", "lr", "grad_norm", "samples_per_s"],
        "val": ["accuracy", "loss"], "test": ["accuracy", "loss"]}


def of_metrics(run):
    """{tag: {step: value}}, of each step the last line: a run that goes on does some again, and what
    it has not done again is undone. Lines of other kinds hold no scalars."""
    scalars = {}
    for line in open(f"{run}/metrics.jsonl"):
        line = json.loads(line)
        if line["kind"] in ("resume", "rollback"):
            scalars = {tag: {step: x for step, x in steps.items() if step <= line["step"]}
                       for tag, steps in scalars.items()}
        group = line["kind"] + ("_" + line["which"] if line["kind"] == "test" else "")
        masked = ["bits"] if "bits" in line else []  # of masked training
        for key in KEYS.get(line["kind"], []) + masked:
            value = np.float32("nan" if line[key] is None else line[key])
            scalars.setdefault(f"{group}/{key}", {})[line["step"]] = value
    return scalars


def of_tensorboard(run):
    """The same; steps that are not in order are an error, but for tests, which may come again."""
    reader = EventAccumulator(run, size_guidance={"scalars": 0})
    reader.Reload()
    scalars = {}
    for tag in reader.Tags()["scalars"]:
        steps = [event.step for event in reader.Scalars(tag)]
        if not tag.startswith("test") and steps != sorted(set(steps)):
            sys.exit(f"{run}: {tag}: steps that were done again are still there: {steps}")
        scalars[tag] = {event.step: np.float32(event.value) for event in reader.Scalars(tag)}
    return scalars


if len(sys.argv) < 2:
    sys.exit(__doc__)
for run in sys.argv[1:]:
    want, got = of_metrics(run), of_tensorboard(run)
    if not want:
        sys.exit(f"{run}: metrics.jsonl has no scalars")
    if sorted(want) != sorted(got):
        sys.exit(f"{run}: metrics.jsonl has {sorted(want)}, TensorBoard {sorted(got)}")
    for tag in want:
        if list(want[tag]) != list(got[tag]):
            sys.exit(f"{run}: {tag}: metrics.jsonl has steps {list(want[tag])}, TensorBoard {list(got[tag])}")
        np.testing.assert_allclose(  # nine digits of a double, and a float
            list(got[tag].values()), list(want[tag].values()), rtol=1.3e-7, err_msg=f"{run}: {tag}")
    print(f"{run}: {sum(map(len, want.values()))} scalars of {len(want)} tags are equal")
