#!/usr/bin/env python3
"""Checks that every header compiles alone: with nothing included before it, and without warnings.

    headers_alone.py INCLUDE_FOLDER CXX [FLAG...]    exit status 1, with the compiler's messages for each header that does not

Most of a header's compiling is what it includes. Some headers that many others include are therefore compiled once beforehand, and
handed to those, and only to those, that include them anyway: nothing is lent that a header does not bring itself.
"""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef)\b", re.MULTILINE)
MOST_PRECOMPILED = 12
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def includes(root):
    """{header: what it names in #include}, for every header of ours. A header with conditions says nothing for certain."""
    found = {}
    for path in sorted(headers(root / "corewire")):
        name = str(path.relative_to(root))
        if name.startswith("corewire/apps/runtime/public/"):
            continue  # the facades stand at corewire/*.hh
        text = path.read_text()
        found[name] = [] if CONDITION.search(text) else INCLUDE.findall(text)
    return found


def headers(folder):
    for where, _, files in os.walk(folder, followlinks=True):
        yield from (Path(where) / file for file in sorted(files) if file.endswith(".hh"))


def closures(named):
    """{header: all that it includes, itself not among them}."""
    known = {}

    def closure(header):
        if header not in known:
            known[header] = set()  # a circle ends here
            for each in named.get(header, []):
                known[header] |= {each} | closure(each)
        return known[header]

    for header in named:
        closure(header)
    return known


def weight(header, known):
    """About what compiling it takes: the standard's headers and the libraries' are the long ones."""
    return sum(1 if each.startswith("corewire/") else 8 for each in known[header])


def choose(known):
    """The headers to compile beforehand, and {header: the one of them that it gets}."""
    best, given = {}, {}
    for _ in range(MOST_PRECOMPILED):
        def gain(candidate):
            own = weight(candidate, known)
            return sum(max(0, own - best.get(h, 0)) for h in known if candidate in known[h]) - 2 * own
        candidate = max(sorted(h for h in known), key=gain)
        if gain(candidate) <= 0:
            break
        own = weight(candidate, known)
        for header in known:
            if candidate in known[header] and own > best.get(header, 0):
                best[header], given[header] = own, candidate
    return sorted(set(given.values())), given


def main():
    root, compiler, flags = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    command = [compiler, "-std=c++20", "-O0", *WARNINGS, "-I", str(root), *flags, "-x"]
    known = closures(includes(root))
    beforehand, given = choose(known)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 2)) as pool:
        def run(arguments, text):
            return subprocess.run([*command, *arguments], input=text, text=True, capture_output=True, check=False)

        def precompiled(header):
            return f"{folder}/{beforehand.index(header)}.hh"

        def precompile(header):
            Path(precompiled(header)).write_text(f"#include <{header}>\n")
            run(["c++-header", precompiled(header), "-o", precompiled(header) + ".gch"], "")

        def check(header):
            lent = ["-include", precompiled(given[header])] if header in given else []
            return header, run(["c++", "-fsyntax-only", *lent, "-"], f"#include <{header}>\n")

        list(pool.map(precompile, beforehand))
        ours = [header for header in sorted(known) if header.startswith("corewire/")] # the system's answer for themselves
        wrong = [(header, result) for header, result in pool.map(check, ours) if result.returncode != 0]
    for header, result in wrong:
        print(f"{result.stderr}does not compile alone: <{header}>")
    print(f"{len(ours)} headers, {len(wrong)} do not compile alone; {len(beforehand)} compiled beforehand for {len(given)}")
    return 1 if wrong or not known else 0


if __name__ == "__main__":
    sys.exit(main())
