#!/usr/bin/env python3
"""The RFCs that docs/rfc speaks of, as one table; and whether the tests that its pages name are there.

    tools/tidy/rfc.py            prints the table: RFC, title, rows, the tests named
    tools/tidy/rfc.py --check    says what is named and is not there, and fails

In a page, the last column of a table names tests: `suite` or `folder/suite` (tests/folder/suite_test.cc), a folder of tests, a script, or
the name of a test case."""
import argparse
import pathlib
import re
import sys
import tempfile

CASE = re.compile(r"\b(?:BOOST_\w+_TEST_CASE\w*|CASE)\(\s*(\w+)")  # CASE: of the socket suite (tests/support/socket_suite.hh)
NAMED = re.compile(r"`([^`]+)`")
LONG_WORD = re.compile(r"(?<![\w`/.])[a-z0-9]+(?:_[a-z0-9]+){2,}(?![\w`/.])")


class Tests:
    """What there is below tests/: suites, folders, scripts, names of cases."""

    def __init__(self, root):
        self.names, self.cases = set(), set()
        for path in (root / "tests").rglob("*"):
            inside = path.relative_to(root).as_posix()
            if path.is_dir() or path.suffix in (".sh", ".py", ".script", ".pkt"):
                self.add(inside)
                self.add(inside.removesuffix(".pkt"))
            elif path.name.endswith("_test.cc") or path.parent.name == "support" and path.suffix == ".cc":
                self.add(inside)
                self.add(inside.removesuffix("_test.cc").removesuffix(".cc"))
                self.cases |= set(CASE.findall(path.read_text()))

    def add(self, inside):
        """By every ending of its path: net/tcp/closing is also tcp/closing and closing."""
        parts = inside.split("/")
        self.names |= {"/".join(parts[i:]) for i in range(len(parts))}

    def has(self, name):
        name = name.removeprefix("tests/").rstrip("/")
        return name in self.names or name.removesuffix(".sh").removesuffix("_test.cc") in self.names or name in self.cases


class Page:
    def __init__(self, path):
        self.number = path.stem
        lines = path.read_text().splitlines()
        self.title = lines[0].partition(":")[2].strip() or lines[0].lstrip("# ")
        cells = [[c.strip() for c in line.strip().strip("|").split("|")] for line in lines if line.startswith("|")]
        self.rows = [c for c in cells if not set("".join(c)) <= set("-: ")]
        self.header = self.rows.pop(0) if self.rows else []

    def named(self):
        """(row, what it names as a test) of every row, where the table has a column of tests."""
        if not self.header or "test" not in self.header[-1]:
            return
        for row in self.rows:
            cell = row[-1]
            for name in NAMED.findall(cell):
                yield row, name
            for name in LONG_WORD.findall(NAMED.sub("", cell)):
                yield row, name


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "tests/net").mkdir(parents=True)
        (root / "tests/net/way_test.cc").write_text("BOOST_AUTO_TEST_CASE(it_is_as_it_is)")
        row = "| 1 | `net/way`, it_is_as_it_is, `gone`, it_is_not_there |"
        (root / "page.md").write_text(f"# RFC 1: x\n| section | test |\n| --- | --- |\n{row}\n")
        tests = Tests(root)
        missing = [name for _, name in Page(root / "page.md").named() if not tests.has(name)]
    if missing != ["gone", "it_is_not_there"]:
        print(f"self-test: found {missing}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parents[2], type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true", help="is a test that is not there found out?")
    parser.add_argument("--check", action="store_true", help="only say what is named and is not there")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    tests = Tests(options.root)
    folder = options.root / "docs" / "rfc"
    pages = [Page(path) for pattern in ("[0-9]*.md", "draft-*.md") for path in sorted(folder.glob(pattern))]
    missing = [(p.number, row[0], name) for p in pages for row, name in p.named() if not tests.has(name)]
    if options.check:
        for number, row, name in missing:
            print(f"docs/rfc/{number}.md: '{row}' names {name}, which is no test")
        print(f"docs/rfc: {len(pages)} pages, {sum(len(p.rows) for p in pages)} rows, {len(missing)} tests that are not there")
        return 1 if missing or not pages else 0
    print("| RFC | title | rows | tests |\n| --- | --- | --- | --- |")
    for p in pages:
        named = sorted({name for _, name in p.named() if "_" not in name or "/" in name})
        print(f"| [{p.number.lstrip('0')}]({p.number}.md) | {p.title} | {len(p.rows)} | {', '.join(named)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
