#!/usr/bin/env python3
"""What the outermost levels of ListOps' expressions tell of their values.

  levels.py DIR [LEVELS]   how many values of DIR's val are guessed by their outermost operator alone, and by it and the
                           digits and operators of 1, 2, ... LEVELS [3] levels of arguments; of an expression further in
                           its operator alone is known, and what values such ones have among the first train

The best guess is the value that comes out most often when those further in are drawn, from the seed 1. DIR is a prepared
set. NumPy is needed.
"""
import argparse

import numpy as np

import prepared

MIN, MAX, MED, SM, CLOSE, DIGIT = range(1, 7)
DRAWS = 100
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument("levels", metavar="LEVELS", nargs="?", type=int, default=3)
    options = parser.parse_args()
    values = {op: [] for op in (MIN, MAX, MED, SM)}
    for expression in expressions(options.directory, "train", EXAMPLES)[0]:
        note_values(expression, values)
    values = {op: np.array(of_op) for op, of_op in values.items()}
    asked, answers = expressions(options.directory, "val")
    rng = np.random.default_rng(1)
    for levels in range(options.levels + 1):
        guesses = [np.bincount(drawn(expression, levels, values, rng)).argmax() for expression in asked]
        known = f"and {levels} level{'s' * (levels > 1)} of arguments" if levels else "the outermost operator"
        print(f"{known:<28} {100 * np.mean(guesses == answers):.1f} %", flush=True)


if __name__ == "__main__":
    main()
