#!/usr/bin/env python3
"""Writes a dataset of your own, for cast_train CONFIG task=custom data.dir=DIR:

    make_custom_dataset.py DIR                               does a row of digits hold more odd than even ones?
    make_custom_dataset.py DIR train.tsv val.tsv test.tsv    texts, in each line LABEL<TAB>TEXT; in .csv LABEL,TEXT
    make_custom_dataset.py DIR FOLDER [SIDE]                 texts, or pictures in grey of SIDE x SIDE pixels (Pillow)

A FOLDER holds LABEL/*.txt, or LABEL/*.png or *.jpg, of which a tenth validates and a tenth tests, drawn with seed 1; or
train/LABEL/..., val/LABEL/... and test/LABEL/... Labels are any words; a line of .csv that begins with "label" is none.
"""
import csv
import json
import random
import struct
import sys
from array import array
from pathlib import Path

SPLITS = "train", "val", "test"
PICTURES = ".png", ".jpg", ".jpeg"


def write(path, documents, labels, metadata, wide):
    """A safetensors file: the header's size, the header, and the tensors. documents: lists of ids."""
    ends = array("q", [0])
    for document in documents:
        ends.append(ends[-1] + len(document))
    tensors = {"offsets": ("I64", ends), "labels": ("I32", array("i", labels)),  # of pairs also I32 [examples,2] "pairs"
               "tokens": ("I16" if wide else "U8", array("h" if wide else "B", (i for d in documents for i in d)))}
    header, size = {"__metadata__": metadata}, 0
    for name, (dtype, data) in tensors.items():
        end = size + len(data) * data.itemsize
        header[name] = {"dtype": dtype, "shape": [len(data)], "data_offsets": [size, end]}
        size = end
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text.encode())
        for _, data in tensors.values():
            data.tofile(f)


def save(splits, vocab, ids=None):
    """splits: of train, val and test (document, label)s; a document is a row of ids below vocab, not empty. ids: "bytes",
    each plus 1, of texts, and "pixels" of grey squares, so that programs show them and read others (--input) as such."""
    words = sorted({label for _, label in splits[0]}, key=lambda word: (len(word) if word.isdigit() else 9999, word))
    for name, split in zip(SPLITS[1:], splits[1:]):
        for _, label in split:
            if label not in words:
                sys.exit(f"{name}: label '{label}' is not among those of train, {', '.join(words[:20])}")
    metadata = {"format": "cast-dataset-1", "task": "custom", "vocab": str(vocab), "classes": str(len(words))}
    if ids:
        metadata["ids"] = ids
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    for name, split in zip(SPLITS, splits):
        documents, labels = zip(*split)
        write(where / f".{name}", documents, [words.index(label) for label in labels], metadata, vocab > 256)
    (where / "train.safetensors").unlink(missing_ok=True)
    for name in reversed(SPLITS):  # train last: where it is, the others are of the same set
        (where / f".{name}").replace(where / f"{name}.safetensors")
    print(f"{where}: {', '.join(str(len(s)) for s in splits)} examples; labels", end=" ")
    print(", ".join(f"{i} ({word})" if str(i) != word else word for i, word in enumerate(words[:100])))


def digits():
    draw = random.Random(1)
    documents = [[draw.randint(1, 10) for _ in range(draw.randint(5, 59))] for _ in range(2400)]
    examples = [(d, str(int(sum(i % 2 for i in d) > len(d) / 2))) for d in documents]
    save((examples[:2000], examples[2000:2200], examples[2200:]), 11)


def ids_of(text):
    """A byte's id is itself + 1, as Text's are."""
    return [byte + 1 for byte in text.encode("utf-8", "surrogateescape")]


def read_lines(path):
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as f:
        rows = csv.reader(f) if path.suffix == ".csv" else (line.rstrip("\r\n").split("\t", 1) for line in f)
        examples = []
        for n, row in enumerate(rows, 1):
            if not any(row) or n == 1 and row[0].lower() == "label":
                continue
            if len(row) != 2 or not row[0] or not row[1]:
                sys.exit(f"{path}: example {n}: expected a label and a text, got {str(row)[:80]}")
            examples.append((ids_of(row[1]), row[0].strip()))
    return examples or sys.exit(f"{path}: holds no example")


def read_picture(path, side):
    from PIL import Image
    picture = Image.open(path).convert("L")
    if side:
        picture = picture.resize((side, side))
    if picture.width != picture.height:
        sys.exit(f"{path}: {picture.width} x {picture.height} pixels: say the SIDE of the squares that pictures become")
    return picture.tobytes()


def read_folder(folder, side):
    """Examples, and whether they are pictures."""
    files = sorted(p for p in folder.glob("*/*") if p.suffix.lower() in (".txt", *PICTURES))
    kinds = {path.suffix.lower() != ".txt" for path in files}
    if len(kinds) != 1:
        sys.exit(f"{folder}: expected LABEL/*.txt, or LABEL/*.png or *.jpg" + (", not both" if files else ""))
    pictures = kinds.pop()
    examples = [(read_picture(p, side) if pictures else [b + 1 for b in p.read_bytes()], p.parent.name) for p in files]
    for path, (document, _) in zip(files, examples):
        if not document:
            sys.exit(f"{path}: is empty")
    return examples, pictures


def from_folder(folder, side):
    if (folder / SPLITS[0]).is_dir():
        splits, kinds = zip(*(read_folder(folder / name, side) for name in SPLITS))
        pictures = kinds[0]
    else:
        examples, pictures = read_folder(folder, side)
        random.Random(1).shuffle(examples)
        n = max(1, len(examples) // 10)
        splits = examples[2 * n:], examples[:n], examples[n:2 * n]
    save(splits, *(256, "pixels") if pictures else (257, "bytes"))


def main():
    given = [Path(path) for path in sys.argv[2:]]
    side = int(sys.argv.pop()) if len(given) == 2 and sys.argv[3].isdigit() else 0
    if len(sys.argv) not in (2, 3, 5) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for path in given[:1] if side else given:
        if not (path.is_file() if len(given) == 3 else path.is_dir()):
            sys.exit(f"{path}: is no {'file' if len(given) == 3 else 'folder'}")
    if not given:
        digits()
    elif len(given) == 3:
        save([read_lines(path) for path in given], 257, "bytes")
    else:
        from_folder(given[0], side)


main()
