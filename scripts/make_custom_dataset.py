#!/usr/bin/env python3
"""Writes a dataset of your own, for cast_train CONFIG task=custom data.dir=DIR:

    make_custom_dataset.py DIR                               does a row of digits hold more odd than even ones?
    make_custom_dataset.py DIR train.tsv val.tsv test.tsv    texts, in each line LABEL<TAB>TEXT; in .csv LABEL,TEXT
    make_custom_dataset.py DIR FOLDER [SIDE]                 texts, or pictures in grey of SIDE x SIDE pixels (Pillow)

A FOLDER holds LABEL/*.txt, or LABEL/*.png or *.jpg, of which a tenth validates and a tenth tests, drawn with seed 1; or
train/LABEL/..., val/LABEL/... and test/LABEL/... Labels are any words, of which programs show the first 64 bytes. A
first line whose label is "label" is passed over. Pictures are turned as their EXIF says.
"""
import csv
import json
import random
import struct
import sys
from array import array
from collections import Counter
from pathlib import Path

SPLITS = "train", "val", "test"
PICTURES = ".png", ".jpg", ".jpeg"


def write(path, documents, labels, metadata, wide):
    """A safetensors file: the header's size, the header, and the tensors. documents: lists of ids."""
    ends = array("q", [0])
    for document in documents:
        ends.append(ends[-1] + len(document))
    tensors = {"offsets": ("I64", ends), "labels": ("I32", array("i", labels)),  # of pairs also I32 "pairs" [examples,2]
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


def classes_of(splits):
    """The labels of train, numbers by their size."""
    count = Counter(label for _, label in splits[0])
    words = sorted(count, key=lambda word: (len(word) if word.isdecimal() else 9999, word))
    for name, split in zip(SPLITS[1:], splits[1:]):
        for _, label in split:
            if label not in count:
                sys.exit(f"{name}: label '{label}' is not among those of train, {', '.join(words[:20])}")
    once = [word for word in words if count[word] == 1]
    if once:
        print(f"warning: {len(once)} labels have one example in train: {', '.join(once[:20])}", file=sys.stderr)
    return words


def shown(word):
    """As a class can be called: at most 64 bytes, without control characters."""
    plain = "".join("?" if c < " " or "\x7f" <= c < "\xa0" else c for c in word)
    return plain.encode(errors="replace")[:64].decode(errors="ignore")


def place(where, splits, words, metadata, wide):
    number = {word: i for i, word in enumerate(words)}
    where.mkdir(parents=True, exist_ok=True)
    for name, split in zip(SPLITS, splits):
        documents, labels = zip(*split)
        write(where / f".{name}", documents, [number[label] for label in labels], metadata, wide)
    (where / "train.safetensors").unlink(missing_ok=True)
    for name in reversed(SPLITS):  # train last: where it is, the others are of the same set
        (where / f".{name}").replace(where / f"{name}.safetensors")


def save(splits, vocab, ids=None):
    """splits: of train, val and test (document, label)s; a document is a row of ids below vocab, not empty. ids:
    "bytes", each plus 1, of texts, "pixels" of grey squares: programs show them and read others (--input) as such."""
    words = classes_of(splits)
    metadata = {"format": "cast-dataset-1", "task": "custom", "vocab": str(vocab), "classes": str(len(words))}
    if ids:
        metadata["ids"] = ids
    if words != [str(i) for i in range(len(words))]:
        metadata["class_names"] = json.dumps([shown(word) for word in words])
    where = Path(sys.argv[1])
    try:
        place(where, splits, words, metadata, vocab > 256)
    except OSError as why:
        for name in SPLITS:
            (where / f".{name}").unlink(missing_ok=True)
        sys.exit(f"{where}: cannot be written: {why.strerror}")
    print(f"{where}: {', '.join(str(len(s)) for s in splits)} examples; labels", end=" ")
    print(", ".join(f"{i} ({word})" if str(i) != word else word for i, word in enumerate(words[:100])))


def digits():
    draw = random.Random(1)
    documents = [[draw.randint(1, 10) for _ in range(draw.randint(5, 59))] for _ in range(2400)]
    examples = [(d, str(int(sum(i % 2 for i in d) > len(d) / 2))) for d in documents]
    save((examples[:2000], examples[2000:2200], examples[2200:]), 11)


def ids_of(text):
    return array("h", (byte + 1 for byte in text))


# ---- texts, a line each ----

def rows_of(path):
    """Columns of each line, or of CSV's record: an unbalanced quote would swallow those behind it."""
    csv.field_size_limit(2**31 - 1)
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as f:
        if path.suffix.lower() == ".csv":
            records = csv.reader(f, strict=True)
            try:
                yield from records
            except csv.Error as why:
                sys.exit(f"{path}: line {records.line_num}: {why}: are its quotes balanced, and doubled within others?")
        else:
            yield from (line.rstrip("\r\n").split("\t", 1) for line in f)


def read_lines(path):
    examples = []
    for n, row in enumerate(rows_of(path), 1):
        label = row[0].strip() if row else ""
        if not any(row) or n == 1 and label == "label":
            continue
        if len(row) != 2 or not label or not row[1]:
            sys.exit(f"{path}: example {n}: expected a label and a text, got {str(row)[:80]}")
        examples.append((ids_of(row[1].encode("utf-8", "surrogateescape")), label))
    return examples or sys.exit(f"{path}: holds no example")


# ---- files in folders ----

def grey_of(picture):
    """As the import of CIFAR-10 has it, but for a few colours; what is transparent stands on black."""
    from PIL import Image
    if picture.mode.startswith("I"):  # 16 bits
        wide = picture.convert("I")
        return Image.frombytes("L", wide.size, bytes((v * 255 + 32895) >> 16 for v in array("i", wide.tobytes())))
    colour = picture.convert("RGBA")
    colour = Image.alpha_composite(Image.new("RGBA", colour.size, (0, 0, 0, 255)), colour).convert("RGB")
    share = 255.5 / 255
    return colour.convert("L", (0.2989 * share, 0.5870 * share, 0.1140 * share, -0.5))  # it adds 0.5, and cuts


def read_picture(path, side):
    try:
        from PIL import Image, ImageOps
        picture = grey_of(ImageOps.exif_transpose(Image.open(path)))
    except ImportError:
        sys.exit("pictures are read by Pillow: pip install pillow, or on Debian apt install python3-pil")
    except Exception as why:  # a damaged PNG is a SyntaxError of Pillow's, one that is too large an Exception alone
        sys.exit(f"{path}: cannot be read: {why}")
    return picture.resize((side, side)).tobytes() if side else squared(path, picture)


def squared(path, picture):
    if picture.width != picture.height:
        sys.exit(f"{path}: {picture.width} x {picture.height} pixels: say the SIDE of the squares that pictures become")
    return picture.tobytes()


def read_folder(folder, side):
    """Examples, and whether they are pictures."""
    files = sorted(p for p in folder.glob("[!.]*/[!.]*") if p.suffix.lower() in (".txt", *PICTURES) and p.is_file())
    kinds = {path.suffix.lower() != ".txt" for path in files}
    if len(kinds) != 1:
        sys.exit(f"{folder}: expected LABEL/*.txt, or LABEL/*.png or *.jpg" + (", not both" if files else ""))
    pictures = kinds.pop()
    examples = [(read_picture(p, side) if pictures else ids_of(p.read_bytes()), p.parent.name) for p in files]
    for path, (document, _) in zip(files, examples):
        if not document:
            sys.exit(f"{path}: is empty")
        if pictures and len(document) != len(examples[0][0]):
            sys.exit(f"{path}: another size than {files[0]}: say the SIDE of the squares that pictures become")
    return examples, pictures


def deal(examples):
    """A tenth of each label's, and one at least, validates, and as many test."""
    random.Random(1).shuffle(examples)
    splits = [], [], []
    for label, count in Counter(label for _, label in examples).items():
        if count < 3:
            sys.exit(f"label '{label}' has {count} files: 3 are the least, to train, to validate and to test")
        own, n = [e for e in examples if e[1] == label], max(1, count // 10)
        for split, part in zip(splits, (own[2 * n:], own[:n], own[n:2 * n])):
            split.extend(part)
    return splits


def from_folder(folder, side):
    if all((folder / name).is_dir() for name in SPLITS):
        splits, kinds = zip(*(read_folder(folder / name, side) for name in SPLITS))
        if len(set(kinds)) > 1 or any(kinds) and len({len(d) for split in splits for d, _ in split}) > 1:
            sys.exit(f"{folder}: its splits are not all texts, or pictures of one size")
        pictures = kinds[0]
    else:
        examples, pictures = read_folder(folder, side)
        splits = deal(examples)
    save(splits, *(256, "pixels") if pictures else (257, "bytes"))


def main():
    sys.stdout.reconfigure(errors="replace")
    sys.stderr.reconfigure(errors="replace")
    given = [Path(path) for path in sys.argv[2:]]
    side = int(sys.argv.pop()) if len(given) == 2 and sys.argv[3].isdecimal() else 0
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return
    if len(sys.argv) not in (2, 3, 5) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if Path(sys.argv[1]).exists() and not Path(sys.argv[1]).is_dir():
        sys.exit(f"{sys.argv[1]}: is no folder")
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
