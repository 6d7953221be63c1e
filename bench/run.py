"""Times training steps and kernels in OCANNL beside other frameworks, where they are installed.

Each peer runs in a process of its own, pinned to the same cores; the peers take turns, and the fastest of the
rounds are compared. Every peer must compute what PyTorch does in float64. docs/bench.md tells how to read it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from baseline import Saved, changes, load, save, summaries
from kernels import KERNEL_GROUPS, kernel
from kernels import MORE_GROUPS as MORE_KERNELS
from measure import Measured, Options, measure
from models import LARGE, QUICK
from peak import peak, processor
from peers import PEERS
from problems import STEPS
from processes import ISAS, pin
from report import best_ratio, kernel_heading, kernel_line, ratios_text, step_table
from steps import PROBLEMS

GROUPS: dict[str, list[str]] = {"steps": list(PROBLEMS), **KERNEL_GROUPS}
MORE_GROUPS: dict[str, list[str]] = {"models": LARGE, **MORE_KERNELS}


def benchmarks(text: str) -> list[str]:
    """The benchmarks that a name on the command line stands for."""
    if text not in GROUPS | MORE_GROUPS and text not in STEPS:
        try:
            kernel(text)
        except KeyError:
            names = [*GROUPS, *MORE_GROUPS, *(name for group in GROUPS.values() for name in group)]
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}") from None
    return (GROUPS | MORE_GROUPS).get(text, [text])


def parsed(args: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    help = f"a step or a kernel, or all of {', '.join(GROUPS)} (by default) or {', '.join(MORE_GROUPS)}"
    parser.add_argument("names", nargs="*", metavar="name", type=benchmarks, help=help)
    parser.add_argument("--peer", choices=PEERS, action="append", help="by default all")
    parser.add_argument("--isa", choices=ISAS, default="native", help="the instructions that all are held to")
    parser.add_argument("--quick", action="store_true", help="models are small ones of the same form")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=21, help="timings of each peer")
    parser.add_argument("--first-rounds", type=int, default=3, help="timings of the first result of a step")
    parser.add_argument("--save", type=Path, help="adds the measurements to this file")
    parser.add_argument("--against", type=Path, help="such a file: exits with 1 if something is slower now")
    return parser.parse_args(args)


def printed(names: Iterable[str], how: Options, failures: list[str]) -> Iterator[list[Measured]]:
    """Shows what is measured as soon as it is. Adds to `failures`, and leaves out, what went wrong."""
    kernel_peers = [peer for peer in how.peers if PEERS[peer].has_kernels]
    is_in_table = False
    for tried in measure(names, how):
        for failed in (one for one in tried if one.failure):
            failures.append(f"{failed.peer}, {failed.name}: {failed.failure}")
            print(f"\nfails: {failures[-1]}", flush=True)
        results = [one for one in tried if not one.failure]
        if not results:
            continue
        is_kernel = results[0].name not in STEPS
        if is_kernel and not is_in_table:
            print("\n" + kernel_heading(kernel_peers))
        print(kernel_line(results, kernel_peers) if is_kernel else "\n" + step_table(results), flush=True)
        is_in_table = is_kernel
        yield results


def main(args: list[str] | None = None) -> None:
    options = parsed(args)
    os.environ |= ISAS[options.isa]
    name_of_processor = processor() + ("" if options.isa == "native" else f" {options.isa}")
    before = None if options.against is None else load(options.against, name_of_processor)
    given = (name for group in options.names or GROUPS.values() for name in group)
    names = dict.fromkeys(name + QUICK if options.quick and name in LARGE else name for name in given)
    how = Options(tuple(options.peer or PEERS), options.threads, options.rounds, options.first_rounds)
    pin(options.threads)
    print(f"{name_of_processor}, {peak() / 1e9:.0f} GFLOP/s a core, threads: {options.threads}")
    now: Saved = {}
    failures: list[str] = []
    ratios: dict[str, float] = {}
    for results in printed(names, how, failures):
        now |= summaries(results)
        found = best_ratio(results)
        if found is not None and results[0].name not in STEPS:
            ratios[results[0].name] = found[0]
        if options.save is not None:
            save(options.save, name_of_processor, now)
    if len(ratios) > 1:
        print("\n" + ratios_text(ratios))
    if before is not None:
        compared = changes(before, now)
        slower = [change for change in compared if change.is_slower]
        print(f"\nslower than before: {len(slower)} of {len(compared)}", *slower, sep="\n")
        failures += map(str, slower)
    if failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
