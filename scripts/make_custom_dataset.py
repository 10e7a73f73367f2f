#!/usr/bin/env python3
"""Writes a dataset of your own: does a row of digits hold more odd than even ones?

    make_custom_dataset.py DIR     then: cast_train CONFIG task=custom data.dir=DIR
"""
import os
import sys
import numpy as np
from safetensors.numpy import save_file

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)

rng = np.random.default_rng(1)
os.makedirs(sys.argv[1], exist_ok=True)
for split, count in ("train", 2000), ("val", 200), ("test", 200):
    documents = [rng.integers(1, 11, size=length) for length in rng.integers(5, 60, size=count)]
    labels = [int((d % 2).mean() > 0.5) for d in documents]
    tensors = {  # tokens: uint8 or int16, below vocab; for pairs also int32 "pairs" [examples, 2]
        "tokens": np.concatenate(documents).astype(np.uint8),
        "offsets": np.cumsum([0] + [len(d) for d in documents], dtype=np.int64),
        "labels": np.array(labels, np.int32)}
    metadata = {"format": "cast-dataset-1", "task": "custom", "vocab": "11", "classes": "2"}
    save_file(tensors, f"{sys.argv[1]}/{split}.safetensors", metadata)
