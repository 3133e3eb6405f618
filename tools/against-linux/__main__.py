#!/usr/bin/env python3
"""`python3 tools/against-linux [SCRIPT...]`: plays scripts against this machine's kernel and against our library, and compares."""
import argparse
import concurrent.futures
import ctypes
import gc
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

from compare import Rules, differences, show  # noqa: E402  (nothing is written beside the sources)
from invent import Inventor  # noqa: E402
from player import play_library, play_linux  # noqa: E402
from script import MODES, SEGMENTS, BadScript, read  # noqa: E402
from shrink import says_the_impossible, shrunk  # noqa: E402

FOLDER = Path(__file__).resolve().parent
LIBRARY = FOLDER.parent.parent / "build/release/bin/libcorewire_packetdrill.so"
PATIENCE = 40   # seconds for one side of one script
PRIORITY = 40   # of the kernel's side, which plays in real time
CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
LINUX_SIDE = ("calls.py", "constants.py", "linux.py", "player.py", "script.py", "wire.py")  # what its trace comes from, beside the script


def arguments():
    parser = argparse.ArgumentParser(prog="tools/against-linux", description=__doc__.partition(": ")[2])
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="a file, or the name of one in scripts/ (default: all of these)")
    parser.add_argument("--library", default=LIBRARY, type=Path, help=f"default: build/release/bin/{LIBRARY.name}")
    parser.add_argument("--mode", choices=MODES, help="instead of the script's own")
    parser.add_argument("--no-push", action="store_true", help="PSH does not count")
    parser.add_argument("--window", action="store_true", help="windows count")
    parser.add_argument("--segments", choices=SEGMENTS, help="instead of the script's own (usually whole): super-segments leave whole, "
                        "are cut by a device without TSO, or are not made")
    parser.add_argument("--seconds", type=float, default=Rules.seconds, help="times are the same within this (%(default)s)")
    parser.add_argument("--share", type=float, default=Rules.share, help="and this share of them (%(default)s)")
    parser.add_argument("--again", type=int, default=2, help="play again this often where traces differ (%(default)s)")
    parser.add_argument("--details", action="store_true", help="tell known differences too, and all packets")
    parser.add_argument("--traces", action="store_true", help="show both whole traces")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the kernel's traces there, and take them from there")
    parser.add_argument("--record", action="store_true", help="only play against this kernel, and keep the traces (--keep)")
    parser.add_argument("--release", default=platform.release(), help="of the kernel whose kept traces count (default: this one's)")
    parser.add_argument("--priority", type=int, default=PRIORITY, help="of the kernel's side, real-time (%(default)s; 0: as it is)")
    parser.add_argument("--invent", metavar="FIRST:LAST", help="scripts that are invented from these seeds; those that differ are made as "
                        "small as they may be, and left in --into")
    parser.add_argument("--into", type=Path, default=Path("invented"), metavar="FOLDER", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=8, help="invented scripts at a time: the kernel's side mostly waits (%(default)s)")
    parser.add_argument("--ignore", default="", metavar="FIELDS", help="of TCP_INFO, which do not count: 'rto ato'")
    parser.add_argument("--play", choices=("linux", "library", "inventor"), help=argparse.SUPPRESS)  # one side, here and now, as JSON lines
    return parser.parse_args()


def scripts(names):
    """The files; raises BadScript."""
    if not names:
        return sorted(FOLDER.glob("scripts/*.in"))
    found = []
    for name in names:
        candidates = [Path(name), FOLDER / "scripts" / name, FOLDER / "scripts" / f"{name}.in"]
        found.append(next((path for path in candidates if path.is_file()), None))
        if found[-1] is None:
            raise BadScript(f"there is no script {name}")
    return found


def play_here(options):
    """In the process, and the network namespace, that play() started; it ends with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if options.play == "inventor":
        return invent_here(options)
    script = read(options.scripts[0])
    script.segments = options.segments or script.segments
    gc.disable()
    sys.setswitchinterval(0.0005)
    if options.play == "linux":
        if options.priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(options.priority))
        trace = play_linux(script, options.mode)
    else:
        trace = play_library(script, options.mode, str(options.library))
    print("\n".join(json.dumps(event) for event in trace), flush=True)
    os._exit(0)  # calls may still be blocked in their threads


def invent_here(options):
    """Prints a script."""
    def played(lines):
        with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
            print(*lines, sep="\n", file=file, flush=True)
            script = read(file.name)
        script.end = 0.01
        return play_library(script, script.mode, str(options.library))
    print("\n".join(Inventor(int(options.scripts[0]), played).script()), flush=True)
    os._exit(0)


def play(side, path, mode, options):
    """The trace of one side, by a process in a network namespace of its own."""
    command = ["unshare", "-n", "-m", sys.executable, str(FOLDER), "--play", side, "--mode", mode, "--library", str(options.library.resolve()),
               "--priority", str(options.priority), str(path)]
    command += ["--segments", options.segments] if options.segments else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return failure(f"did not end within {PATIENCE} s")
    if done.returncode or done.stderr:
        why = done.stderr.strip()[-600:]
        return failure(f"failed with {done.returncode}: {why}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def play_forked(path, mode, options):
    """The kernel's trace by a copy of this process, which is sooner ready where the processor is emulated."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        os.dup2(theirs, 1)
        if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
            os._exit(1)
        options.play, options.mode, options.scripts = "linux", mode, [path]
        play_here(options)
    os.close(theirs)
    with open(ours, encoding="utf-8") as file:
        lines = file.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return failure(f"ended with {status}") if status else [json.loads(line) for line in lines]


def failure(why):
    """In place of a trace: nothing was played, and so nothing differs as known."""
    return [{"time": 0, "kind": "note", "text": why, "failed": True}]


def has_failed(trace):
    return any(event.get("failed") for event in trace)


def refused(trace):
    """The settings that the kernel does not have, or not with this value: it can't say what is right."""
    return [event["text"] for event in trace if event.get("refused")]


def kept_as(path, mode, options):
    """The file of a kept trace: another one for another kernel, script or way to play it."""
    digest = hashlib.sha256(path.read_bytes())
    for name in LINUX_SIDE:
        digest.update((FOLDER / name).read_bytes())
    kind = f".{options.segments}" if options.segments else ""
    return options.keep / f"{path.stem}.{mode}{kind}.{options.release}.{digest.hexdigest()[:12]}.jsonl"


def play_kernel(path, mode, options):
    """Linux's trace, and whether it has been kept from before."""
    if options.keep is None:
        return play("linux", path, mode, options), False
    kept = kept_as(path, mode, options)
    if kept.is_file():
        return [json.loads(line) for line in kept.read_text().splitlines()], True
    if options.release != platform.release():
        return failure(f"{options.keep} has no trace of {options.release}: --record one there"), True
    trace = play_forked(path, mode, options) if options.record else play("linux", path, mode, options)
    if not any(event["kind"] == "note" for event in trace):
        options.keep.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(json.dumps(event) + "\n" for event in trace))
    return trace, False


def compare(path, script, options, rules):
    """Both traces and how they differ: of several tries the one with the fewest lines, a failed one if there is no other. Where they are
    known to differ, the first that does."""
    mode = options.mode or script.mode
    best = None
    for _ in range(options.again + 1):
        linux, kept = play_kernel(path, mode, options)
        if refused(linux):
            return linux, [], []
        ours = play("library", path, mode, options)
        lines = differences(linux, ours, rules)
        failed = has_failed(linux) or has_failed(ours)
        shows = bool(script.known and lines) and not failed
        if best is None or shows or (failed, len(lines)) < (has_failed(best[0]) or has_failed(best[1]), len(best[2])):
            best = linux, ours, lines
        if not failed and (kept or bool(lines) == bool(script.known)):
            break
    return best


def how_they_differ(path, lines, options, rules, tries):
    """The fewest lines of several tries; none where any was the same, or the script makes no sense."""
    path.write_text("\n".join(lines) + "\n")
    mode = options.mode or read(path).mode
    ours = play("library", path, mode, options)
    if has_failed(ours):
        return [ours[0]["text"]]
    best = []
    for _ in range(0 if says_the_impossible(ours) else tries):
        linux = play("linux", path, mode, options)
        found = [] if has_failed(linux) else differences(linux, ours, rules)
        if not found:
            return []
        best = min(best or found, found, key=len)
    return best


def invent(seed, options, rules, folder):
    """Its name, and how the traces differ of what is left of it in --into; none where they do not."""
    path = folder / f"invented{seed}.in"
    command = ["unshare", "-n", "-m", sys.executable, str(FOLDER), "--play", "inventor", "--library", str(options.library.resolve()), str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE)
    except subprocess.TimeoutExpired:
        return path.stem, [f"was not invented within {5 * PATIENCE} s"]
    if done.returncode:  # the library failed on the way: it is played as the script grows
        return path.stem, [f"failed with {done.returncode} while it was invented: {done.stderr.strip()[-600:]}"]
    lines = done.stdout.splitlines()
    if not how_they_differ(path, lines, options, rules, options.again + 1):
        return path.stem, []
    lines = shrunk(lines, lambda fewer: how_they_differ(path, fewer, options, rules, options.again))
    found = how_they_differ(path, lines, options, rules, options.again + 1)
    if found:
        shutil.copy(path, options.into)
    return path.stem, found


def invent_all(options, rules):
    options.into.mkdir(parents=True, exist_ok=True)
    first, _, last = options.invent.partition(":")
    differ = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as scratch:
        pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        runs = [pool.submit(invent, seed, options, rules, Path(scratch)) for seed in range(int(first), int(last))]
        try:
            for done in concurrent.futures.as_completed(runs):
                name, found = done.result()
                differ += bool(found)
                print("DIFFERS" if found else "same   ", name, *found, sep=" " if not found else "\n  ", flush=True)
        except KeyboardInterrupt:
            shutil.rmtree(scratch, ignore_errors=True)
            os._exit(130)  # and with it what its threads play
    print(f"{len(runs)} invented scripts: {differ} differ")
    return 1 if differ else 0


def report(path, script, found, options, rules):
    """Prints one script's outcome and returns its name for the sum."""
    linux, ours, lines = found
    known = ", ".join(str(number) for number in script.known)
    if refused(linux):
        print(f"not     {path.stem}: {', '.join(refused(linux))}", flush=True)
        return "not"
    failed = has_failed(linux) or has_failed(ours)
    outcome = "FAILED" if failed else ("GONE" if known else "same") if not lines else "known" if known else "DIFFERS"
    said = f" ({known})" if outcome == "known" else f", the difference that it is said to show ({known})" if outcome == "GONE" else ""
    print(f"{outcome:7} {path.stem}{said}")
    for line in lines if outcome in ("DIFFERS", "FAILED") or options.details else []:
        print(line)
    if options.traces:
        print("  Linux", *show(linux, rules), "  ours", *show(ours, rules), sep="\n")
    sys.stdout.flush()
    return outcome


def record(options):
    """The kernel's traces of all scripts, for a comparison on another machine."""
    missing = 0
    for path in scripts(options.scripts):
        trace, kept = play_kernel(path, options.mode or read(path).mode, options)
        notes = [event["text"] for event in trace if event["kind"] == "note"]
        print(f"{'kept' if kept else 'played' if not notes else 'FAILED'} {path.stem} {'; '.join(notes)}", flush=True)
        missing += bool(notes)
    return 1 if missing else 0


def main():
    options = arguments()
    if options.record and options.keep is None:
        print("--record needs --keep FOLDER", file=sys.stderr)
        return 2
    if options.play:
        return play_here(options)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        print("needs root and /dev/net/tun", file=sys.stderr)
        return 2
    if not options.record and not options.library.is_file():
        print(f"{options.library} is missing: cmake --build --preset release --target corewire_packetdrill", file=sys.stderr)
        return 2
    if options.record:
        return record(options)
    rules = Rules(options.seconds, options.share, not options.no_push, options.window, options.details, frozenset(options.ignore.split()))
    if options.invent:
        return invent_all(options, rules)
    outcomes = []
    for path in scripts(options.scripts):
        script = read(path)
        found = compare(path, script, options, rules)
        outcomes.append(report(path, script, found, options, rules))
    print(f"{len(outcomes)} scripts: {outcomes.count('same')} the same, {outcomes.count('known')} differ as known, "
          f"{outcomes.count('DIFFERS')} differ" + (f", {outcomes.count('GONE')} differ no more" if "GONE" in outcomes else "") +
          (f", {outcomes.count('FAILED')} failed" if "FAILED" in outcomes else "") +
          (f", {outcomes.count('not')} can't be played by this kernel" if "not" in outcomes else ""))
    return 1 if {"DIFFERS", "GONE", "FAILED"} & set(outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadScript as e:
        print(e, file=sys.stderr)
        sys.exit(2)
