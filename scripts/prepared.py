"""Reads a split of a prepared set, for scripts that look at its examples."""
import json
import struct

import numpy as np

DTYPES = {"tokens": np.uint8, "labels": np.int32, "offsets": np.int64}


def read(directory, split, task):
    """Tokens, labels, offsets (example i has tokens offsets[i] to offsets[i + 1]) and metadata; ends the program with
    what is wrong."""
    path = f"{directory}/{split}.safetensors"
    try:
        with open(path, "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            body = f.read()
        metadata = header.get("__metadata__", {})
        named = metadata.get("task")
        tokens, labels, offsets = (np.frombuffer(body[slice(*header[name]["data_offsets"])], dtype)
                                   for name, dtype in DTYPES.items())
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from error
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError) as error:
        raise SystemExit(f"{path}: expected a prepared set; cast_data verify says what is wrong with it") from error
    if named != task:
        raise SystemExit(f"{path}: expected a set of {task}")
    return tokens, labels, offsets, metadata
