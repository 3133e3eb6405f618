"""Exact counts: what one operation costs, as the difference of two run lengths, so that start and end cancel out."""
import os
import re
import subprocess
import tempfile

from .process import pinned
from .rows import Unmeasurable


def _valgrind(programs, arguments, command, timeout=300):
    valgrind = programs.tool("valgrind", "valgrind")
    full = pinned([valgrind, *arguments, *command], [programs.first_cpu])
    try:
        done = subprocess.run(full, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as e:
        raise Unmeasurable(f"valgrind did not end within {timeout} s") from e
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("==")] or done.stderr.splitlines()
        raise Unmeasurable(f"under valgrind: exit status {done.returncode}: {(lines or ['no message'])[-1][:300]}")
    return done


def instructions(programs, command):
    """All instructions of one run of `command`."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.out")
        _valgrind(programs, ["--tool=callgrind", f"--callgrind-out-file={out}"], command)
        with open(out, encoding="utf-8", errors="replace") as profile:
            for line in profile:
                if line.startswith("totals:"):
                    return int(line.split()[1])
    raise Unmeasurable("callgrind wrote no totals")


def instructions_without(programs, command, prefix):
    """The same without what is called from elsewhere into functions whose names begin with `prefix`, and all they call."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.out")
        _valgrind(programs, ["--tool=callgrind", f"--callgrind-out-file={out}"], command)
        with open(out, encoding="utf-8", errors="replace") as profile:
            return _total_without(profile, prefix)


def _total_without(profile, prefix):
    names = {}  # callgrind writes "(7) name" once, then "(7)"

    def belongs(text):
        number, _, name = text.partition(" ")
        if name:
            names[number] = name
        return names[number].startswith(prefix)

    total = None
    inside = callee_inside = expect_cost = False
    without = 0
    for line in profile:
        if line.startswith("fn="):
            inside = belongs(line[3:].strip())
        elif line.startswith("cfn="):
            callee_inside = belongs(line[4:].strip())
        elif line.startswith("calls="):
            expect_cost = True  # the next line is the call's position and inclusive cost
        elif expect_cost:
            expect_cost = False
            if callee_inside and not inside:
                without += int(line.split()[1])
        elif line.startswith("totals:"):
            total = int(line.split()[1])
    if total is None:
        raise Unmeasurable("callgrind wrote no totals")
    return total - without


def allocations(programs, command):
    """All heap allocations of one run of `command`: malloc, new and their kin."""
    done = _valgrind(programs, ["--tool=memcheck", "--undef-value-errors=no", "--leak-check=no",
                                "--run-libc-freeres=no", "--run-cxx-freeres=no"], command)
    match = re.search(r"total heap usage: ([\d,]+) allocs", done.stderr)
    if not match:
        raise Unmeasurable("memcheck printed no heap usage")
    return int(match.group(1).replace(",", ""))


def per_operation(count, command_for, short, long):
    """`command_for(n)`: the command that does n operations; `count(command)`: what is counted in it."""
    return (count(command_for(long)) - count(command_for(short))) / (long - short)
