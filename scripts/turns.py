#!/usr/bin/env python3
"""How much faster B is than A, by turns: A B B A again and again, until the 95 % interval of the median of B / A is
within 1 % of it, at most 40 pairs. (It is looked at after each turn, which makes it a little narrower than it is.)

  turns.py [--pairs 40] [--within 1] A B ARGUMENT...

A and B are commands in front of the arguments, which have to print what cast_bench --json does:

  turns.py ../before/cast_bench ./cast_bench configs/image.json --seconds 1
  turns.py './cast_bench --threads 2' 'mpirun -n 2 ./cast_bench --threads 1' configs/text.json --data

One load of the machine, one temperature and one frequency meet both sides this way; a figure of yesterday's does not
know what else ran.
"""
import argparse
import json
import math
import shlex
import statistics
import subprocess
import sys


def speed(command, arguments):
    try:
        out = subprocess.run(shlex.split(command) + arguments + ["--json"], capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"turns.py: {command}: {error.strerror}")
    if out.returncode != 0:
        sys.exit(f"turns.py: {command}: exit status {out.returncode}\n{out.stderr}")
    try:
        return json.loads(out.stdout.splitlines()[-1])["samples_per_s"]
    except (IndexError, ValueError, KeyError, TypeError):
        sys.exit(f"turns.py: {command}: expected what cast_bench --json prints, got {out.stdout[-200:]!r}")


def interval(ratios):
    """The 95 % interval of the median that the order of the ratios gives, whatever their distribution; None while they
    are too few."""
    n, below, k = len(ratios), 0.0, 0
    while True:
        below += math.comb(n, k) / 2 ** n
        if below > 0.025:
            break
        k += 1
    return (sorted(ratios)[k - 1], sorted(ratios)[n - k]) if k else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--within", type=float, default=1)
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    args, arguments = parser.parse_known_args()
    ratios = []
    while len(ratios) < args.pairs:
        a, b, b2, a2 = (speed(c, arguments) for c in (args.a, args.b, args.b, args.a))
        ratios += [b / a, b2 / a2]
        median, ends = statistics.median(ratios), interval(ratios)
        print(f"{a:9.4g} {b:9.4g} {b2:9.4g} {a2:9.4g}   B / A {median:.4f}",
              f"[{ends[0]:.4f}, {ends[1]:.4f}]" if ends else "", f"{len(ratios)} pairs", flush=True)
        if ends and max(ends[1] - median, median - ends[0]) <= args.within / 100 * median:
            return
    sys.exit(f"turns.py: the interval is still wider than {args.within} %")


if __name__ == "__main__":
    main()
