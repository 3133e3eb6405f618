#!/usr/bin/env python3
"""Checks the rules of docs/STYLE.md that a program can check.

    house_style.py [ROOT]       exit status 1 and one line for each violation
    house_style.py --self-test  does each rule catch what it forbids?
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LAYERS = ["reactor", "net", "rdma", "apps"]
MAX_LINES = 600  # about ten screens; most files fit on three
MAX_COLUMNS = 140  # .clang-format says 120; long links and tables may run over a little
TEXT = {".hh", ".cc", ".h", ".c", ".py", ".sh", ".md", ".cmake", ".txt", ".json", ".in", ".yml", ""}
TEST_SUITE = re.compile(r"BOOST_(?:AUTO|FIXTURE)_TEST_SUITE\(\s*(\w+)")
TEST_CASE = re.compile(r"BOOST_(?:AUTO|FIXTURE|DATA)_TEST_CASE(?:_TEMPLATE|_F)?\(")
SILENT_SKIP = re.compile(r"geteuid\(\) != 0\) *(?:co_)?(?:return|continue|\{)")
MAKES_DEVICE = re.compile(r"^\s*ip (?:link|tuntap) add\b", re.M)
MACHINE_PATH = re.compile(r"(?<![\w.*~$}\])/-])/(home|root|work|mnt|opt|Users)/\w")


def files(root):
    """Every file git knows or would add; below a folder without git, every file."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.splitlines()
    except (subprocess.CalledProcessError, FileNotFoundError):
        listed = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    skipped = ("build/", ".git/", ".cache/")
    return [Path(name) for name in sorted(listed) if not name.startswith(skipped) and (root / name).is_file()]


def in_lines(path, lines):
    code = path.suffix in (".hh", ".cc", ".h", ".c")
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield number, "a tab"
        if line != line.rstrip():
            yield number, "space at the end of the line"
        if code and len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns (at most {MAX_COLUMNS})"
        if path.parts[0] == "tests" and SILENT_SKIP.search(line):
            yield number, "left out in silence: test::have_root() says SKIPPED"
        if MACHINE_PATH.search(line):
            yield number, "a path of one machine"


def in_test(path, lines):
    """CTest plays one suite of X_test.cc, X (cmake/tests.cmake): what stands in another, or in none, would never be played."""
    suite = path.name.removesuffix("_test.cc")
    depth = 0
    for number, line in enumerate(lines, 1):
        if found := TEST_SUITE.match(line):
            if depth == 0 and found[1] != suite:
                yield number, f"suite '{found[1]}': CTest plays '{suite}' only"
            depth += 1
        elif line.startswith("BOOST_AUTO_TEST_SUITE_END"):
            depth -= 1
        elif depth == 0 and TEST_CASE.match(line):
            yield number, "a test case outside of a suite: CTest does not play it"


def in_file(path, text):
    layer = path.parts[0] if path.parts[0] in LAYERS else None
    lines = text.splitlines()
    yield from in_lines(path, lines)
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    if layer and path.suffix in (".hh", ".cc", ".c") and len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines (at most {MAX_LINES}): one idea a file"
    if path.parts[0] == "tests" and path.name.endswith("_test.cc"):
        yield from in_test(path, lines)
    if path.parts[0] == "tests" and path.suffix == ".sh" and (made := MAKES_DEVICE.search(text)) and "unshare --net" not in text:
        yield text.count("\n", 0, made.start()) + 1, "a device in the machine's own network: unshare --net"
    if path.suffix == ".hh":
        if not lines or not lines[0].startswith("//"):
            yield 1, "a header begins by saying what it is"
        if "#pragma once" not in lines:
            yield 1, "no #pragma once"
    if layer and path.suffix == ".hh" and re.search(r"^\s*using namespace ", text, re.M):
        yield 1, "'using namespace' in a header"


def violations(root):
    listed = files(root)
    for path in listed:
        if path.suffix in TEXT and path.name != "LICENSE":
            text = (root / path).read_text(errors="replace")
            for number, why in in_file(path, text):
                yield f"{path}:{number}: {why}"
    with_code = {p.parent for p in listed if p.suffix in (".hh", ".cc", ".c") and p.parts[0] in LAYERS}
    for folder in sorted(with_code):
        if folder / "README.md" not in listed:
            yield f"{folder}: no README.md"


def self_test():
    good = "// What it is.\n#pragma once\n"
    machine_path = "/" + "home/someone/x"
    cases = {
        "net/a/README.md": ("", False), "net/a/good.hh": (good, False),
        "net/b/no_readme.hh": (good, "net/b"), "net/a/tab.hh": (good + "\tint x;\n", True),
        "net/a/trailing.hh": (good + "int x; \n", True), "net/a/wide.hh": (good + "//" + "x" * 150 + "\n", True),
        "net/a/path.hh": (good + f"// see {machine_path}\n", True), "net/a/newline.hh": (good + "int x;", True),
        "net/a/long.cc": ("int x;\n" * 601, True), "net/a/silent.hh": ("#pragma once\n", True),
        "net/a/unguarded.hh": ("// What it is.\n", True),
        "net/a/using.hh": (good + "using namespace std;\n", True), "tests/long_test.cc": ("int x;\n" * 601, False),
        "tests/right_test.cc": ("BOOST_AUTO_TEST_SUITE(right)\nBOOST_AUTO_TEST_CASE(a) {}\nBOOST_AUTO_TEST_SUITE_END()\n", False),
        "tests/left_test.cc": ("BOOST_AUTO_TEST_SUITE(right)\nBOOST_AUTO_TEST_SUITE_END()\n", True),
        "tests/silent.hh": (good + "if (::geteuid() != 0) return;\n", True),
        "tests/devices.sh": ("set -e\n    ip link add a type veth peer name b\n", True),
        "tests/apart.sh": ("unshare --net true\nip link add a type veth peer name b\n", False),
        "tests/loose_test.cc": ("BOOST_FIXTURE_TEST_CASE(a, b) {}\n", True),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in cases.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text)
        found = sorted(line.split(":")[0] for line in violations(Path(folder)))
    expected = sorted(name if bad is True else bad for name, (_, bad) in cases.items() if bad)
    if found != expected:
        print(f"self-test: expected {expected}, found {found}")
        return 1
    print(f"self-test: {len(found)} kinds of violation found")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(violations(root))
    print("\n".join(found + [f"house style: {len(found)} violations in {len(files(root))} files"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
