"""Whether the readers that cast_export --python writes compute what the C programs do.

usage: parity.py BIN FOLDER [ONLY]    prints TAP; BIN has the programs, FOLDER is for files, ONLY is
a part of the names of cases

Of each case a model is trained for a few updates, so that no parameter has its initial value, and
exported. The readers' logits are compared with those of cast_step, and their probabilities on a
split with cast_eval's. cast_step makes a training pass, in which batch norm takes the statistics
of the batch: there PyTorch's model is compared with it in training mode.
"""

import csv
import importlib.util
import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    torch = None
try:
    from safetensors import safe_open
except ImportError:
    safe_open = None

BIN, FOLDER, ONLY = Path(sys.argv[1]), Path(sys.argv[2]), "".join(sys.argv[3:])
BAR = 1e-5
LENGTH = 24
TASKS = {
    "listops": (16, 10, 1),
    "text": (257, 2, 1),
    "retrieval": (257, 2, 2),
    "custom": (300, 3, 1),
}

MODEL = {"depth": 2, "heads": 2, "d": 8, "d_ff": 12, "d_emb": 13, "max_length": LENGTH}
MECHANISMS = {
    "topk": {"type": "cast", "clusters": 4},
    "sa-laplace": {
        "type": "cast",
        "clusters": 4,
        "mechanism": "sa_topk",
        "attention_fn": "laplace",
    },
    "full": {"type": "full"},
    "naive": {"type": "naive"},
}
FEATURES = {
    "layer-pre": {},
    "scale-post-sinusoidal-cls-conv": {
        "norm": "scale",
        "pre_norm": False,
        "positions": "sinusoidal",
        "pooling": "cls",
        "conv": 3,
        "d_emb": 8,
    },
    "batch-pre-rope-cls-conv-pairs": {
        "task": "retrieval",
        "norm": "batch",
        "positions": "rope",
        "pooling": "cls",
        "conv": 5,
    },
    "layer-pre-conv-residual": {"conv": 5, "conv_residual": True},
    "scale-post-conv-residual": {"norm": "scale", "pre_norm": False, "conv": 3, "conv_residual": True},
    "layer-post-rope-custom": {"task": "custom", "pre_norm": False, "positions": "rope"},
    "batch-post-cls-narrow": {"norm": "batch", "pre_norm": False, "pooling": "cls", "d_emb": 6},
    "layer-pre-augmented": {"task": "text", "data": {"augment": True, "holdout": 0}},
    "scale-pre-pairs": {"task": "retrieval", "norm": "scale", "heads": 4},
}
CAST = {
    "length": {"cluster_size": "length"},
    "size-3": {"cluster_size": 3},
    "size-30": {"cluster_size": 30, "mechanism": "sa_topk"},
    "no-summaries": {"summaries": False},
    "no-intra": {"intra": False, "attention_fn": "laplace"},
    "frozen": {"surrogates": "frozen", "mechanism": "sa_topk"},
    "one-cluster": {"clusters": 1},
}


def result(good, name, why=""):
    print(f"{'ok' if good else 'not ok'} - {name}{why and ': ' + why}", flush=True)


def run(program, *words):
    done = subprocess.run([BIN / program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{program}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


# ---- files ----


def draw_tokens(draw, vocab, n):
    """Without repetition where that can be: with rotary positions tokens of one id tie."""
    return draw.sample(range(vocab), n) if vocab >= n else draw.choices(range(vocab), k=n)


def write(path, tensors, metadata=None):
    types = {"uint8": "U8", "int16": "I16", "int32": "I32", "int64": "I64"}
    header, at = {"__metadata__": metadata or {}}, 0
    for name, t in tensors.items():
        offsets = [at, at + t.nbytes]
        header[name] = {"dtype": types[str(t.dtype)], "shape": t.shape, "data_offsets": offsets}
        at += t.nbytes
    text = json.dumps(header).encode()
    data = b"".join(t.tobytes() for t in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_split(path, task, examples, draw):
    vocab, classes, per = TASKS[task]
    lengths = [draw.randint(1, LENGTH + 6) for _ in range(per * examples)]
    tokens = [t for n in lengths for t in draw_tokens(draw, vocab, n)]
    tensors = {
        "offsets": np.cumsum([0, *lengths]).astype(np.int64),
        "labels": np.array([draw.randrange(classes) for _ in range(examples)], np.int32),
    }
    if per == 2:
        pairs = [[draw.randrange(len(lengths)) for _ in range(2)] for _ in range(examples)]
        tensors["pairs"] = np.array(pairs, np.int32)
    tensors["tokens"] = np.array(tokens, np.uint8 if vocab <= 256 else np.int16)
    write(path, tensors, {"task": task, "vocab": str(vocab), "classes": str(classes)})


def write_data():
    for task in TASKS:
        (FOLDER / task).mkdir()
        for i, (split, examples) in enumerate({"train": 12, "val": 3, "test": 8}.items()):
            write_split(FOLDER / task / f"{split}.safetensors", task, examples, random.Random(i))


def write_batch(path, examples, task):
    per = TASKS[task][2]
    shape = (len(examples), per)[:per]
    tokens = np.full((len(examples), per, LENGTH), -7, np.int32)
    lengths = np.zeros((len(examples), per), np.int32)
    for i, example in enumerate(examples):
        for j, ids in enumerate(example):
            tokens[i, j, : len(ids)], lengths[i, j] = ids, len(ids)
    labels = np.zeros(len(examples), np.int32)
    tokens, lengths = tokens.reshape(*shape, LENGTH), lengths.reshape(shape)
    write(path, {"tokens": tokens, "lengths": lengths, "labels": labels})


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


# ---- a case ----


def softmax(logits):
    y = np.exp(logits - logits.max(1, keepdims=True))
    return y / y.sum(1, keepdims=True)


def error(actual, expected):
    """Relative to numbers that are larger than 1."""
    return float((np.abs(actual - expected) / np.maximum(1, np.abs(expected))).max())


class Case:
    def __init__(self, name, attention, features):
        self.name = name
        self.folder = FOLDER / name.replace("/", "-")
        self.folder.mkdir()
        features = dict(features)
        self.task = features.pop("task", "listops")
        self.data = {"dir": str(FOLDER / self.task)} | features.pop("data", {})
        self.model = MODEL | features | {"attention": attention}
        self.train()
        self.np = module(self.folder / "m_numpy.py")
        self.numpy = self.np.Model()
        self.torch = module(self.folder / "m_torch.py") if torch else None

    def train(self):
        self.config, self.weights = self.folder / "c.json", self.folder / "m.safetensors"
        train = {"steps": 4, "eval_every": 4, "batch": 6, "lr": 0.05}
        config = {"task": self.task, "data": self.data, "model": self.model, "train": train}
        self.config.write_text(json.dumps(config))
        run("cast_train", self.config, "--out", self.folder / "run", "--threads", 1)
        run("cast_export", self.folder / "run", "--out", self.folder / "m", "--python")

    def numpy_logits(self, examples, dtype=None):
        model = self.np.Model(dtype=dtype) if dtype else self.numpy
        return np.stack([model.logits(*example) for example in examples])

    def torch_logits(self, examples, training=False):
        model = self.torch.load()
        model.train(training)
        with torch.no_grad():
            pairs = TASKS[self.task][2] == 2
            return model([e if pairs else e[0] for e in examples]).numpy()

    def is_decided(self, examples):
        """Whether rounding does not matter: it could exchange two cluster scores that are near."""
        single, double = (self.numpy_logits(examples, t) for t in (np.float32, np.float64))
        return error(single, double) < BAR / 4

    def draw_batch(self):
        vocab, _, per = TASKS[self.task]
        for attempt in range(50):
            draw = random.Random(attempt)
            lengths = [[1, 24], [LENGTH, 5], [7, 7], [13, 23]]
            examples = [[draw_tokens(draw, vocab, n) for n in pair[:per]] for pair in lengths]
            if self.is_decided(examples):
                return examples
        raise RuntimeError("no batch in which rounding does not matter")

    def compare(self, what, actual, expected):
        worst = error(actual, expected)
        result(worst <= BAR, f"{self.name}: {what}", f"{worst:.1e}")

    def check_step(self):
        examples = self.draw_batch()
        batch, out = self.folder / "b", self.folder / "o"
        write_batch(batch, examples, self.task)
        run("cast_step", self.config, "--weights", self.weights, "--batch", batch, "--out", out)
        expected = self.np.read_safetensors(out)[0]["logits"]
        batch_norm = self.model.get("norm") == "batch"
        if not batch_norm:
            self.compare("NumPy and cast_step", self.numpy_logits(examples), expected)
        if torch:
            self.compare("PyTorch and cast_step", self.torch_logits(examples, batch_norm), expected)
            logits = self.torch_logits(examples)
            self.compare("NumPy and PyTorch", self.numpy_logits(examples), logits)

    def check_eval(self):
        split = FOLDER / self.task / "test.safetensors"
        predictions = self.folder / "p.csv"
        run("cast_eval", self.weights, "--predict", predictions)
        rows = [list(map(float, row)) for row in list(csv.reader(predictions.open()))[1:]]
        examples = [documents for documents, _ in self.np.read_split(split)]
        decided = [i for i, example in enumerate(examples) if self.is_decided([example])]
        mine = softmax(self.numpy_logits([examples[i] for i in decided]))
        self.compare(f"NumPy and cast_eval, {len(decided)} of 8", mine, np.array(rows)[decided, 3:])


def check_library(case):
    """Every kind of safetensors that the programs write opens with the library, the same."""
    run("cast_step", case.config, "--init", 1, "--weights-out", case.folder / "w")
    sizes = ["--train", 9, "--val", 3, "--test", 3]
    run("cast_data", "generate", "listops", "--out", FOLDER / "made", *sizes)
    there = ["m.safetensors", "run/best.safetensors", "run/last.safetensors", "w", "o"]
    for path in [*(case.folder / name for name in there), FOLDER / "made/train.safetensors"]:
        ours, metadata = case.np.read_safetensors(path)
        with safe_open(path, "numpy") as f:
            same = set(f.keys()) == set(ours) and f.metadata() == metadata
            same = same and all(np.array_equal(f.get_tensor(name), t) for name, t in ours.items())
        result(same, f"the safetensors library opens {path.name}")


def check_main(case):
    split = FOLDER / case.task / "test.safetensors"
    said = run("cast_eval", case.weights, "--json")
    accuracy = f"accuracy {100 * json.loads(said)['accuracy']:.2f} %, 8 examples"
    for name in ["m_numpy.py"] + ["m_torch.py"] * bool(torch):
        words = [sys.executable, case.folder / name, split]
        done = subprocess.run(words, capture_output=True, text=True)
        result(done.stdout.strip() == accuracy, f"{name} is a program: {done.stdout.strip()}")


def refuses(call, what):
    try:
        call()
    except ValueError as e:
        return what in str(e)
    return False


def check_refusals(case):
    readers = {"NumPy": (case.np, case.np.Model)}
    if torch:
        readers["PyTorch"] = (case.torch, case.torch.load)
    for name, (reader, load) in readers.items():
        checkpoint = case.folder / "run/best.safetensors"
        known = {"norm": "layer", "attention": {"type": "cast"}}
        good = refuses(lambda: load(checkpoint), "not what cast_export wrote")
        result(good, f"{name} refuses what is no export")
        good = refuses(lambda: reader.check(known | {"colour": 3}), "not known here: colour")
        result(good, f"{name} refuses a key that it does not know")
        good = refuses(lambda: reader.check(known | {"norm": "rms"}), "norm 'rms' is not computed")
        result(good, f"{name} refuses a norm that it does not know")
        other = known | {"attention": {"type": "linear"}}
        good = refuses(lambda: reader.check(other), "type 'linear' is not computed")
        result(good, f"{name} refuses a mechanism that it does not know")


def main():
    write_data()
    cases = [
        (f"{mechanism}/{feature}", MECHANISMS[mechanism], FEATURES[feature])
        for feature in FEATURES
        for mechanism in MECHANISMS
    ]
    cases += [(f"cast/{name}", MECHANISMS["topk"] | keys, {}) for name, keys in CAST.items()]
    cases = [case for case in cases if ONLY in case[0]]
    for i, (name, attention, features) in enumerate(cases):
        try:
            case = Case(name, attention, features)
            case.check_step()
            case.check_eval()
        except (RuntimeError, OSError, KeyError, ValueError) as e:
            result(False, name, str(e))
            continue
        if i == 0:
            first = case
    check_main(first)
    check_refusals(first)
    if safe_open:
        check_library(first)
    else:
        print("ok # SKIP the safetensors library opens them: it is not here")
    if not torch:
        print("ok # SKIP PyTorch: it is not here")


if __name__ == "__main__":
    main()
