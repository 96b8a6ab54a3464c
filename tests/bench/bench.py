#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every measurement of docs/BENCHMARKS.md on this machine, and that file from the results.

    tests/bench/run                    everything; writes docs/BENCHMARKS.md
    tests/bench/run --only overhead    one part: accuracy, overhead, tools or footprint; prints it
"""

import argparse
import os
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from accuracy import table as accuracy_table
from bench import footprint, measure, tools
from bench.tools import Recorder
from harness.tracer import ROOT, need_binary

LAKE = "## Asking the lake\n"  # what follows has commands of its own and is kept
PARTS = ("accuracy", "overhead", "footprint")
ALONE = ("tools",)  # the rounds of overhead in which the other recorders take part, without the rest


def machine():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        virtual = "virtual machine" if any("hypervisor" in line for line in lines) else "machine"
    release = ".".join(platform.release().split("-")[0].split(".")[:3])
    return f"{os.cpu_count()}-core {virtual}, {memory:.0f} GiB, Linux {release}, {platform.machine()}"


def overhead(rounds, other_rounds, blocks, names=None):
    recorders = [Recorder, measure.Control, tools.Tracer]
    storms = {name: measure.STORMS[name] for name in names or measure.STORMS}
    pairs = [name for name in measure.PAIRED if name in storms] if blocks else []
    results, refused = measure.interleaved(recorders, rounds, storms, others=tools.OTHERS, other_rounds=other_rounds, few=pairs)
    for name, of_storm in measure.paired(tools.Tracer, pairs, blocks, blocks // 2).items() if pairs else ():
        results[name].update(of_storm)
    shown = recorders + (tools.OTHERS if other_rounds else [])
    return f"""Each storm takes about two thirds of a second. In each of {rounds} rounds every recorder runs beside every storm, in an order drawn anew;
recorders other than Tracer take part in {other_rounds} of them. The three storms of programs are measured otherwise for Tracer, whose cost there is
smaller than what this machine drifts by in a minute: in {blocks} blocks of nothing, Tracer, Tracer, nothing ({blocks // 2} of nothing four times), with storms of half
the size. A cell is how much more the storm takes than beside nothing: the mean
of the ratios of the rounds or blocks (the outer tenth cut off) with its 95 % bootstrap interval. The first row is nothing measured against
nothing: differences of that size are noise. "Fork, exec, wait" starts the host's /bin/true again and again, as a script does;
"exec" is harder, a static program by vfork, which takes half the time; "exec on all cores" leaves a recorder no idle core to work on.

What the workload notices, its own CPU time:

{measure.table(results, shown, refused, 1)}

Its wall time:

{measure.table(results, shown, refused, 0)}

What it costs the host, CPU time of the storm and of the recorder's own process together:

{measure.table(results, shown, refused, 2)}

{direct_text()}"""


def direct_text():
    lines = ""
    for name, (cpu, kernel, own) in measure.direct(tools.Tracer, measure.PAIRED).items():
        lines += (f"| {measure.TITLES[name]} | {cpu / 1000:.0f} µs | {kernel / 1000:.1f} µs, {kernel / cpu * 100:.2f} % "
                  f"| {own / 1000:.1f} µs, {own / cpu * 100:.2f} % | {(kernel + own) / cpu * 100:.2f} % |\n")
    return f"""The same by the clocks of the kernel, which count the one and the other while they run, so that noise moves both alike: CPU time
of one start and end of a process, how much of that passed in Tracer's BPF programs (`bpf_stats_enabled`, whose own cost is in it),
and what the collector used beside it. The storms take about two seconds here, so that what the collector does each second
anyway is shared by as many processes as a second has.

| storm | the process | of that in BPF | the collector | together |
|---|---|---|---|---|
{lines}"""


def footprint_text(seconds, count):
    idle = footprint.idle(seconds)
    crowd = footprint.crowd()
    many = footprint.many(count)
    events = many["events"]
    identity = "holds" if events["seen"] == events["submitted"] + events["lost"] + events["filtered"] else "does NOT hold"
    mib = 1 << 20
    return f"""| what | measured | bound |
|---|---|---|
| own CPU when idle, over {idle['seconds']} s | {idle['cpu_share'] * 100:.3f} % of a core | 0.1 % |
| RSS when idle, all processes of the service | {idle['rss_bytes'] / mib:.1f} MiB (PSS {idle['pss_bytes'] / mib:.1f}) | 12 MiB |
| RSS with {crowd['processes']:,} living processes | {crowd['rss_bytes'] / mib:.1f} MiB (PSS {crowd['pss_bytes'] / mib:.1f}) | 32 MiB |
| own CPU with {crowd['processes']:,} living processes | {crowd['cpu_share'] * 100:.2f} % of a core | |
| {many['processes']:,} processes in {many['seconds']:.0f} s | {many['records']:,} records in the spool | {many['processes']:,} |
| the same: seen = submitted + lost + filtered | {events['seen']:,} = {events['submitted']:,} + {events['lost']:,} + {events['filtered']:,}: {identity} | |
| the same: own CPU, RSS at the end | {many['cpu_seconds']:.1f} s, {many['rss_bytes'] / mib:.1f} MiB (PSS {many['pss_bytes'] / mib:.1f}) | |

RSS and PSS (which divides a page among those that share it) are sums of `/proc/PID/smaps_rollup` over all processes of the service, as `tracer status`
counts them: the recorder and its parent. With an endpoint there are two more, the streamer and its keeper.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS + ALONE, help="one part; printed, docs/BENCHMARKS.md stays as it is")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the overhead measurement (20)")
    parser.add_argument("--other-rounds", type=int, default=3, help="how many of them with the other recorders (3)")
    parser.add_argument("--blocks", type=int, default=32, help="blocks of the storms of programs (32); 0: in rounds, as the others")
    parser.add_argument("--storms", type=lambda text: text.split(","), help="some storms only: exec,spawn,...")
    parser.add_argument("--idle-seconds", type=int, default=60, help="how long the idle collector is watched (60)")
    parser.add_argument("--processes", type=int, default=1_000_000, help="how many short processes are recorded")
    options = parser.parse_args()

    need_binary()
    loads = f"{os.getloadavg()[0]:.1f}"
    parts = {}
    for name in PARTS + ALONE:
        if name != options.only and (options.only or name in ALONE):
            continue
        started = time.monotonic()
        if name == "accuracy":
            parts[name] = accuracy_table.text()
        elif name == "overhead":
            parts[name] = overhead(options.rounds, options.other_rounds, options.blocks, options.storms)
        elif name == "tools":
            parts[name] = overhead(options.other_rounds, options.other_rounds, 0, options.storms)
        else:
            parts[name] = footprint_text(options.idle_seconds, options.processes)
        print(parts[name])
        print(f"bench: {name} took {time.monotonic() - started:.0f} s", file=sys.stderr)
    if options.only is None:
        document = ROOT / "docs" / "BENCHMARKS.md"
        lake = document.read_text().partition(LAKE)
        document.write_text(f"""# Benchmarks

Made by `make bench` (as root, about a quarter of an hour on a machine with nothing else to do) on a {machine()}, with load
{loads} when it began. Every figure of the collector comes from that command; `tests/bench/run --help` says how to make one part
alone. Those of the lake, at the end, have their own commands.

## Accuracy

{parts['accuracy']}
## Overhead

{parts['overhead']}
The other recorders are Debian's packages {', '.join(f'`{name}`' for name in tools.PACKAGES)}, each recording no more than
program starts (forkstat and perf record: forks and exits too). None of them gives CPU time, peak memory or I/O.

## The collector's own needs

{parts['footprint']}
{lake[1]}{lake[2]}""")
        print(f"bench: wrote {document.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
