"""The command line of tools/bench."""
import argparse
import contextlib
import json
import os
import signal
import sys

from . import environment, output
from .measure import end_progress, measure, progress
from .process import Programs
from .quiet import Patience
from .suites import SUITES

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

DESCRIPTION = """Measures Corewire against its baselines, both in the same run, and holds each figure against its target.

suites:
  rtt      round trips, bulk, costs in instructions, cores talking to each other
  reactor  what a core does without a network: tasks, timers, io_uring, files, metrics
  tcp      bulk, losses, short connections, very many connections, floods
  rdma     what a frame costs through the verbs port, on the fake NIC; round trips beside perftest's in a virtual machine
  all      every suite
  report   prints what was last measured here, as Markdown for docs/BENCHMARKS.md (--json: an object by suite)

exit status: 0 when every row holds, 1 when one does not or cannot be measured, 2 for a wrong option."""


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tools/bench", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=[*SUITES, "all", "report"], metavar="SUITE")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds of fresh processes (default 7)")
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help="measure this row only; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the rows of the suite and measure nothing")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="length of one timed sample (default 1)")
    parser.add_argument("--patience", type=float, default=300, metavar="S",
                        help="seconds to wait, in all, for the machine to be quiet (default 300)")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"), metavar="DIR",
                        help="build directory (default build/release)")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds needs at least 1")
    if options.seconds <= 0:
        parser.error("--seconds needs more than 0")
    return parser, options


def main(arguments):
    parser, options = parse(arguments)
    if options.suite == "report":
        return print_last_reports(options)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))  # so that namespaces and servers are removed
    names = list(SUITES) if options.suite == "all" else [options.suite]
    patience = Patience(options.patience)
    programs = Programs(options.build, patience)
    report = {"environment": environment.describe(SOURCE, options.build), "rows": []}
    with contextlib.ExitStack() as cleanup:
        suites = {name: SUITES[name](programs, options.seconds, cleanup) for name in names}
        check_names(parser, options.only, suites)
        for name, (rows, legs) in suites.items():
            wanted = [r for r in rows if not options.only or r.name in options.only]
            if options.list:
                for row in wanted:
                    print(f"{row.name:<28} {row.target_text():<24} {row.what}")
                continue
            disturbed_before = programs.disturbed_samples
            results = measure(wanted, legs, options.rounds, progress)
            report["rows"] += results
            if not options.only:
                disturbed = programs.disturbed_samples - disturbed_before
                save(options, name, {"environment": report["environment"], "rows": results,
                                     "quiet": not patience.gave_up and disturbed == 0, "disturbed_samples": disturbed})
    end_progress()
    if options.list:
        return 0
    report["quiet"] = not patience.gave_up and programs.disturbed_samples == 0
    print(json.dumps(report, indent=1) if options.json else output.table(report))
    if not options.json and not report["quiet"]:
        print(f"\nThe machine was not quiet ({programs.disturbed_samples} disturbed samples): measure again for figures to keep.")
    return 0 if all(row["holds"] for row in report["rows"]) else 1


def check_names(parser, only, suites):
    known = {row.name for rows, _ in suites.values() for row in rows}
    for name in only:
        if name not in known:
            parser.error(f"--only: there is no row '{name}'; --list names them")


def report_path(options, suite):
    return os.path.join(options.build, "bench", f"{suite}.json")


def save(options, suite, report):
    path = report_path(options, suite)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)


def print_last_reports(options):
    reports = {}
    for suite in SUITES:
        with contextlib.suppress(FileNotFoundError), open(report_path(options, suite), encoding="utf-8") as file:
            reports[suite] = json.load(file)
    if not reports:
        print(f"tools/bench: nothing measured yet in {options.build}: run tools/bench all", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(reports, indent=1))
    else:
        for suite, report in reports.items():
            print(f"## {suite}\n\n{output.markdown(report)}\n")
    return 0 if all(row["holds"] for report in reports.values() for row in report["rows"]) else 1
