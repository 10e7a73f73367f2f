#!/usr/bin/env python3
"""Writes a dataset of your own:

    make_custom_dataset.py DIR                               does a row of digits hold more odd than even ones?
    make_custom_dataset.py DIR train.tsv val.tsv test.tsv    texts of yours, in each line LABEL<TAB>TEXT; labels 0, 1, ...

then: cast_train CONFIG task=custom data.dir=DIR
"""
import os
import sys
import numpy as np
from safetensors.numpy import save_file

SPLITS = "train", "val", "test"


def save(splits, vocab, classes):
    """splits: of train, val and test the documents, lists of ids below vocab, none empty; and a class of each."""
    for split, (documents, labels) in zip(SPLITS, splits):
        write(f"{sys.argv[1]}/.{split}", documents, labels, vocab, classes)
    if os.path.exists(f"{sys.argv[1]}/train.safetensors"):
        os.remove(f"{sys.argv[1]}/train.safetensors")
    for split in reversed(SPLITS):  # train last: where it is, the others are of the same set
        os.replace(f"{sys.argv[1]}/.{split}", f"{sys.argv[1]}/{split}.safetensors")


def write(path, documents, labels, vocab, classes):
    tensors = {  # tokens: uint8 or int16; for pairs of documents also int32 "pairs" [examples, 2]
        "tokens": np.concatenate(documents).astype(np.uint8 if vocab <= 256 else np.int16),
        "offsets": np.cumsum([0] + [len(d) for d in documents], dtype=np.int64),
        "labels": np.array(labels, np.int32)}
    metadata = {"format": "cast-dataset-1", "task": "custom", "vocab": str(vocab), "classes": str(classes)}
    save_file(tensors, path, metadata)


def digits():
    rng = np.random.default_rng(1)
    splits = []
    for count in 2000, 200, 200:
        documents = [rng.integers(1, 11, size=length) for length in rng.integers(5, 60, size=count)]
        splits.append((documents, [int((d % 2).mean() > 0.5) for d in documents]))
    save(splits, 11, 2)


def read_texts(path):
    """Texts as ids, a byte's being itself + 1, and labels."""
    documents, labels = [], []
    with open(path, "rb") as f:
        for n, line in enumerate(f, 1):
            label, _, text = line.rstrip(b"\r\n").partition(b"\t")
            if not label.isdigit() or len(label) > 6 or not text:
                sys.exit(f"{path}: line {n}: expected a label from 0 to 999999, a tab and a text")
            documents.append(np.frombuffer(text, np.uint8).astype(np.int16) + 1)
            labels.append(int(label))
    return (documents, labels) if documents else sys.exit(f"{path}: is empty")


def texts(paths):
    splits = [read_texts(path) for path in paths]
    save(splits, 257, 1 + max(max(labels) for _, labels in splits))


if len(sys.argv) not in (2, 5) or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
os.makedirs(sys.argv[1], exist_ok=True)
texts(sys.argv[2:]) if sys.argv[2:] else digits()
