#!/usr/bin/env python3
"""A model of what a training step takes on many cores and hosts (docs/scaling.md).

  scaling.py lengths FILE...             quantiles of the tokens of an example of prepared splits, as JSON
  scaling.py predict COSTS LENGTHS       rows as cast_bench --scaling --json has them, of every task in COSTS:
                                         1 to 256 cores of a host, or with --hosts 1 to so many hosts of --threads
  scaling.py at COSTS LENGTHS            a table of what is predicted for a host of --threads
  scaling.py check COSTS LENGTHS         what was measured beside what is predicted for it
  scaling.py batches COSTS LENGTHS       where cores stop paying, and which batch it takes to go on

COSTS: lines of `cast_bench CONFIG --scaling --data --json`, of one thread and whatever else was measured; LENGTHS: what
`lengths` printed. Options: --bandwidth and --latency of the network between hosts, --threads of a host.
"""
import argparse
import array
import json
import math
import random
import struct

LANES = 32     # train.lanes, which grows here as batches do
TILE = 256     # rows of a document that one thread takes at a time
ALONE = 0.047  # of a document's work that is not shared out: 2 threads do 16,384 tokens of Text 1.91 times as fast
STEPS = 30     # that are simulated, of the same draws whatever is asked for


def lengths(paths):
    """{task: 101 quantiles}, of pairs of both documents together."""
    out = {}
    for path in paths:
        with open(path, "rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            head = json.loads(f.read(size))

            def tensor(name, kind):
                begin, end = head[name]["data_offsets"]
                f.seek(8 + size + begin)
                values = array.array(kind)
                values.frombytes(f.read(end - begin))
                return values

            if "offsets" not in head:
                continue
            at = tensor("offsets", "q")
            documents = [b - a for a, b in zip(at, at[1:])]
            if "pairs" in head:
                pair = tensor("pairs", "i")
                documents = [documents[a] + documents[b] for a, b in zip(pair[::2], pair[1::2])]
            documents.sort()
            quantiles = [documents[min(len(documents) - 1, q * len(documents) // 100)] for q in range(101)]
            out[head["__metadata__"]["task"]] = quantiles
    return out


def batches(cost, quantiles, batch, draws):
    """What the samples of a step take on one thread, of some steps: in proportion to their tokens."""
    per = cost["per_example"]
    lanes_seconds = cost["batch"] / cost["samples_per_s"] - cost["serial_seconds"]
    mean = lanes_seconds / cost["batch"]
    drawn = random.Random(1)
    most = per * cost["most_tokens"]
    tokens = [min(q, most) for q in quantiles] if quantiles else [most]
    average = sum(tokens) / len(tokens)
    for _ in range(draws):
        yield [(mean * n / average, math.ceil(n / TILE)) for n in (drawn.choice(tokens) for _ in range(batch))]


def fill(samples, most):
    """Lanes: each sample, longest first, goes to the one with the least to do."""
    lanes = [[0.0, 1] for _ in range(min(most, len(samples)))]
    for work, tiles in sorted(samples, reverse=True):
        least = min(lanes, key=lambda lane: lane[0])
        least[0] += work
        least[1] = max(least[1], tiles)
    return sorted(map(tuple, lanes), reverse=True)


def place(samples):
    """src/model/deal.c: both sides of the tree have as much to do. Heaviest first."""
    if len(samples) < 2:
        return samples

    def part(room):
        half = sum(s[0] for s in samples) / 2
        missing, to_come, sides = [half, half], [len(samples) - room, room], ([], [])
        for s in samples:
            to = not to_come[0] or (to_come[1] and missing[1] / to_come[1] > missing[0] / to_come[0])
            missing[to] -= s[0]
            to_come[to] -= 1
            sides[to].append(s)
        return sides, abs(missing[0]) / half

    whole = 1
    while 2 * whole < len(samples):
        whole *= 2
    sides, uneven = part(len(samples) - whole)
    if uneven > 0.01:
        sides, _ = part(len(samples) - len(samples) // 2)
    return place(sides[0]) + place(sides[1])


def runs(samples, hosts):
    """Runs of about as much work, one a host."""
    everything, before, out = sum(s[0] for s in samples), 0, [[] for _ in range(hosts)]
    for s in samples:
        out[min(hosts - 1, int((before + s[0] / 2) / everything * hosts))].append(s)
        before += s[0]
    return out


def lanes_take(lanes, cores):
    """In the tree's order to whoever is free; who finds none left helps with those that run, tile by tile."""
    queue = list(lanes)
    running, time = [], 0.0
    while queue or running:
        while queue and len(running) < cores:
            work, tiles = queue.pop(0)
            running.append([work, tiles])
        spare = cores - len(running)
        speeds = []
        for i, (_, tiles) in enumerate(running):
            helpers = min(tiles - 1, spare // len(running) + (i < spare % len(running)))
            speeds.append(1 / (ALONE + (1 - ALONE) / (1 + helpers)))
        step = min(r[0] / v for r, v in zip(running, speeds))
        time += step
        for r, v in zip(running, speeds):
            r[0] -= v * step
        running = [r for r in running if r[0] > 1e-12]
    return time


def predict(cost, quantiles, threads, hosts, options, batch=None):
    """A row: seconds of a step on `hosts` hosts of so many threads, and what they are lost to."""
    batch = batch or cost["batch"]
    serial, lanes = cost["serial_seconds"], LANES * batch // cost["batch"]
    levels = math.ceil(math.log2(min(threads, lanes, batch))) if threads > 1 else 0
    add = 12 * cost["summed"] / options.memory  # reads two buffers, writes one
    ways = math.ceil(math.log2(hosts)) if hosts > 1 else 0
    # Sums climb a tree of hosts; weights go down a pipeline, about once over each link.
    sums, weights = 4 * cost["summed"] / options.bandwidth, 4 * cost["parameters"] / options.bandwidth
    exchange = ways * (sums + 2 * options.latency) + (weights if ways else 0)
    alone = together = level = 0
    for samples in batches(cost, quantiles, batch, STEPS):
        of_hosts = runs(place(fill(samples, lanes)), hosts)
        alone += sum(s[0] for s in samples) / STEPS
        together += max(lanes_take(s, threads) for s in of_hosts) / STEPS
    step = together + levels * add + serial + exchange
    n, used = threads * hosts, (alone + serial) / (threads * hosts * (together + levels * add + serial + exchange))
    return {
        "task": cost["task"], "hosts": hosts, "ranks": hosts, "threads": threads, "batch": batch,
        "samples_per_s": batch / step, "faster": (alone + serial) / step, "efficiency": used,
        "lost_waiting": (together + levels * add - alone / n) / step,
        "lost_serial": serial * (n - 1) / n / step, "lost_exchange": exchange / step,
    }


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def tasks(costs, spans):
    for task in dict.fromkeys(c["task"] for c in costs):
        mine = [c for c in costs if c["task"] == task]
        one = [c for c in mine if c["ranks"] == 1 and c["threads"] == 1]
        if not one:
            raise SystemExit(f"scaling.py: {task}: no row of one rank and one thread")
        yield one[0], spans.get(task), mine


def predict_all(costs, spans, options):
    for cost, span, _ in tasks(costs, spans):
        shapes = [(2**k, 1) for k in range(9)]
        if options.hosts > 1:
            shapes = [(options.threads, 2**k) for k in range(options.hosts.bit_length())]
        for threads, hosts in shapes:
            print(json.dumps(predict(cost, span, threads, hosts, options)))


def check(costs, spans, options):
    print("| task | ranks | threads | measured, times as fast | predicted | off by |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    options.bandwidth = options.memory / 2  # ranks on one host
    for cost, span, mine in tasks(costs, spans):
        for c in mine:
            if c is cost or (c["ranks"] == 1 and c["threads"] == 1):
                continue
            told = predict(cost, span, c["threads"], c["ranks"], options)["faster"]
            told /= predict(cost, span, c.get("base_threads", 1), 1, options)["faster"]
            print(f"| {c['task']} | {c['ranks']} | {c['threads']} | {c['faster']:.2f} | {told:.2f} | "
                  f"{100 * (told / c['faster'] - 1):+.0f} % |")


def at(costs, spans, options):
    print("| task | efficiency, % | lost waiting, % | serial part, % |")
    print("| --- | ---: | ---: | ---: |")
    for cost, span, _ in tasks(costs, spans):
        row = predict(cost, span, options.threads, 1, options)
        print(f"| {cost['task']} | {100 * row['efficiency']:.1f} | {100 * row['lost_waiting']:.1f} | "
              f"{100 * row['lost_serial']:.1f} |")


def batches_table(costs, spans, options):
    threads = options.threads
    print(f"| task | batch | cores at 80 % | at 50 % | hosts of {threads} at 80 % | at 50 % | "
          f"batch for 64 cores | for 16 hosts of {threads} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for cost, span, _ in tasks(costs, spans):

        def used(shape, batch=None):
            return predict(cost, span, *shape, options, batch)["efficiency"]

        def most(share, shapes):
            return max([0] + [s[0] * s[1] for s in shapes if used(s) >= share])

        def needed(shape):
            batch = cost["batch"]
            while used(shape, batch) < 0.8:
                batch *= 2
                if batch > 64 * cost["batch"]:
                    return "more"
            return batch

        cores, hosts = [(2**k, 1) for k in range(9)], [(threads, 2**k) for k in range(7)]
        print(f"| {cost['task']} | {cost['batch']} | {most(0.8, cores)} | {most(0.5, cores)} | "
              f"{most(0.8, hosts) // threads} | {most(0.5, hosts) // threads} | {needed((64, 1))} | "
              f"{needed((threads, 16))} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["lengths", "predict", "check", "at", "batches"])
    p.add_argument("files", nargs="+")
    p.add_argument("--bandwidth", type=float, default=1.25, help="GB/s between hosts [1.25, which is 10 Gbit/s]")
    p.add_argument("--latency", type=float, default=30, help="microseconds [30]")
    p.add_argument("--memory", type=float, default=60, help="GB/s of one thread that adds up buffers [60]")
    p.add_argument("--hosts", type=int, default=1, help="of predict: the most [1]")
    p.add_argument("--threads", type=int, default=16, help="of a host, where there are several [16]")
    options = p.parse_args()
    options.bandwidth *= 1e9
    options.memory *= 1e9
    options.latency *= 1e-6
    if options.what == "lengths":
        print(json.dumps(lengths(options.files)))
        return
    if len(options.files) != 2:
        p.error("COSTS and LENGTHS")
    with open(options.files[1], encoding="utf-8") as f:
        spans = json.load(f)
    {"predict": predict_all, "check": check, "at": at, "batches": batches_table}[options.what](read(options.files[0]), spans, options)


if __name__ == "__main__":
    main()
