#!/usr/bin/env python3
"""What the outermost levels of ListOps' expressions tell of their values.

  levels.py DIR [LEVELS]   how many values of DIR's val are guessed by their outermost operator alone, and by it and the
                           digits and operators of 1, 2, ... LEVELS [3] levels of arguments; of an expression further in
                           its operator alone is known, and what values such ones have among the first train. Of all,
                           and of those by their outermost operator
  --split SPLIT            of test, say [val]
  --predicted FILE         beside what a model guesses: cast_eval RUN --split SPLIT --predict FILE

The best guess is the value that comes out most often when those further in are drawn, from the seed 1. DIR is a prepared
set. NumPy is needed.
"""
import argparse
import csv

import numpy as np

import prepared

MIN, MAX, MED, SM, CLOSE, DIGIT = range(1, 7)
OPERATORS = {"MIN": MIN, "MAX": MAX, "MED": MED, "SM": SM}
DRAWS = 1000  # by 100 the likeliest value of MED or SM is often another
EXAMPLES = 1000  # of train, for the values of expressions by operator


def value(op, args):
    """Of an operator, and of args [n,...], their values."""
    if op == MIN:
        return args.min(axis=0)
    if op == MAX:
        return args.max(axis=0)
    if op == SM:
        return args.sum(axis=0) % 10
    ranked, n = np.sort(args, axis=0), len(args)
    return (ranked[(n - 1) // 2] + ranked[n // 2]) // 2


def parse(tokens):
    """An expression as (operator, arguments), of which those that are not digits are expressions."""
    outer = [(0, [])]
    for token in tokens:
        if token >= DIGIT:
            outer[-1][1].append(token - DIGIT)
        elif token == CLOSE:
            inner = outer.pop()
            outer[-1][1].append(inner)
        else:
            outer.append((token, []))
    return outer[0][1][0]


def note_values(expression, values):
    """Its value; values[operator] gets those of all expressions in it."""
    op, args = expression
    args = np.array([arg if isinstance(arg, int) else note_values(arg, values) for arg in args])
    values[op].append(int(value(op, args)))
    return values[op][-1]


def drawn(expression, levels, values, rng):
    """[DRAWS] values that it may have, as far as so many levels of its arguments tell."""
    op, args = expression
    if levels == 0:
        return values[op][rng.integers(len(values[op]), size=DRAWS)]
    inner = [drawn(arg, levels - 1, values, rng) for arg in args if not isinstance(arg, int)]
    digits = np.array([arg for arg in args if isinstance(arg, int)], int)[:, None]
    return value(op, np.concatenate([np.broadcast_to(digits, (len(digits), DRAWS)), *(draws[None] for draws in inner)]))


def expressions(directory, split, most=None):
    tokens, labels, offsets, _ = prepared.read(directory, split, "listops")
    bounds = offsets[:None if most is None else most + 1]
    return [parse(tokens[a:b].tolist()) for a, b in zip(bounds, bounds[1:])], labels


def predictions(path, answers):
    """A model's, of the first answers or all; ends the program where they are of others."""
    try:
        with open(path, encoding="utf-8", newline="") as f:
            rows = [(int(row["label"]), int(row["predicted"])) for row in csv.DictReader(f)]
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path}: expected what cast_eval --predict writes") from error
    labels, predicted = np.array(rows, int).reshape(-1, 2).T
    if len(labels) == 0 or not np.array_equal(labels, answers[:len(labels)]):
        raise SystemExit(f"{path}: expected predictions of this set and split; its labels are others")
    return predicted


def tell(known, guesses, asked, answers):
    """How many of the guesses, of the first asked or all, are right: of all, and by operator."""
    right = guesses == answers[:len(guesses)]
    outermost = np.array([op for op, _ in asked[:len(guesses)]])
    shares = [right.mean(), *(right[outermost == op].mean() if op in outermost else np.nan for op in OPERATORS.values())]
    print(f"{known:<28}", *(f"{100 * share:6.1f}" for share in shares), flush=True)


def count(text):
    if int(text) < 0:
        raise ValueError
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("levels", metavar="LEVELS", nargs="?", type=count, default=3)
    parser.add_argument("--split", choices=("train", "val", "test"), default="val")
    parser.add_argument("--predicted", metavar="FILE")
    options = parser.parse_args()
    values = {op: [] for op in OPERATORS.values()}
    for expression in expressions(options.directory, "train", EXAMPLES)[0]:
        note_values(expression, values)
    values = {op: np.array(of_op) for op, of_op in values.items()}
    asked, answers = expressions(options.directory, options.split)
    predicted = predictions(options.predicted, answers) if options.predicted else None
    rng = np.random.default_rng(1)
    print(f"{'right, %':<28}", *(f"{name:>6}" for name in ("all", *OPERATORS)))
    for levels in range(options.levels + 1):
        guesses = np.array([np.bincount(drawn(expression, levels, values, rng)).argmax() for expression in asked])
        known = f"and {levels} level{'s' * (levels > 1)} of arguments" if levels else "the outermost operator"
        tell(known, guesses, asked, answers)
    if predicted is not None:
        tell("predicted", predicted, asked, answers)


if __name__ == "__main__":
    main()
