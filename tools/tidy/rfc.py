#!/usr/bin/env python3
"""The RFCs that docs/rfc speaks of, as one table; and whether the tests that its pages name are there.

    tools/tidy/rfc.py            prints the table: RFC, title, rows, the tests named
    tools/tidy/rfc.py --check    says what is named and is not there, and fails

In a page, the last column of a table names tests: `suite` or `folder/suite` (tests/folder/suite_test.cc), a folder of tests, a script, or
the name of a test case, also one that several suites run (tests/support/socket_suite.hh). Each row names one, or says "none: why". A page
without a table says on which page its RFC is.

RFC 9293 numbers what it demands: a row that claims "MUST-24..28" or "MUST-38, 39" is held to it by tests that say MUST-24, MUST-25 and so on,
each number by itself, beside what asserts it. All 69 stand on some page, if only to say why not."""
import argparse
import pathlib
import re
import sys
import tempfile

CASE = re.compile(r"\bBOOST_\w+_TEST_CASE\w*\(\s*(\w+)")
LIST = re.compile(r"#define\s+\w+_SUITE\(X\)((?:.*\\\n)*.*)")  # cases that are compiled once for each port, and declared in one list
LISTED = re.compile(r"\bX\(\s*(\w+)\s*\)")
NAMED = re.compile(r"`([^`]+)`")
TESTS = re.compile(r"^(?:test|script)")  # the head of a column that names tests; a page may have several tables
CLAIM = re.compile(r"\bMUST-(\d+)((?:(?:\.\.|, | to )\d+\b)*)")
DEMANDS = frozenset(range(1, 70))  # RFC 9293 appendix B: each is met, or its page says why not
LONG_WORD = re.compile(r"(?<![\w`/.])[a-z0-9]+(?:_[a-z0-9]+){2,}(?![\w`/.])")


def claims(text):
    """The numbers of what is claimed: "MUST-2..4, 7" is 2, 3, 4 and 7."""
    numbers = set()
    for first, more in CLAIM.findall(text):
        last = int(first)
        numbers.add(last)
        for how, number in re.findall(r"(\.\.|, | to )(\d+)", more):
            numbers |= {int(number)} if how == ", " else set(range(last, int(number) + 1))
            last = int(number)
    return numbers


class Tests:
    """What there is below tests/: suites, folders, scripts, names of cases."""

    def __init__(self, root):
        self.names, self.cases, self.musts = set(), set(), set()
        for path in (root / "tests").rglob("*"):
            if path.suffix in (".cc", ".hh", ".pkt"):
                self.musts |= {int(n) for n in re.findall(r"\bMUST-(\d+)\b(?!\.\.)", path.read_text())}
            inside = path.relative_to(root).as_posix()
            if path.is_dir() or path.suffix in (".sh", ".py", ".script", ".pkt"):
                self.add(inside)
                self.add(inside.removesuffix(".pkt"))
            elif path.name.endswith("_test.cc") or path.parent.name == "support" and path.suffix == ".cc":
                self.add(inside)
                self.add(inside.removesuffix("_test.cc").removesuffix(".cc"))
                self.cases |= set(CASE.findall(path.read_text()))
            elif path.suffix == ".hh":
                text = path.read_text()
                self.cases |= set(CASE.findall(text))
                for cases in LIST.findall(text):
                    self.cases |= set(LISTED.findall(cases))

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
        self.spoken_of = claims(path.read_text())
        lines = path.read_text().splitlines()
        self.refers = any(line.startswith("On the page of ") for line in lines)
        self.title = lines[0].partition(":")[2].strip() or lines[0].lstrip("# ")
        cells = [[c.strip() for c in line.strip().strip("|").split("|")] for line in lines if line.startswith("|")]
        self.rows = [c for c in cells if not set("".join(c)) <= set("-: ")]
        self.header = self.rows.pop(0) if self.rows else []

    def named(self):
        """(row, what it names as a test) of every row, where the table has a column of tests."""
        if not self.header or not TESTS.search(self.header[-1]):
            return
        for row in self.rows:
            for name in self.names_in(row):
                yield row, name

    def claimed(self):
        """The MUSTs of RFC 9293 that the rows of its table claim, in the column of sections or rules."""
        return {n for row in self.rows for cell in row[:-1] for n in claims(cell)}

    @staticmethod
    def names_in(row):
        cell = row[-1]
        return NAMED.findall(cell) + LONG_WORD.findall(NAMED.sub("", cell))

    def unnamed(self):
        """The rows that name no test and do not say why; and the page itself, if its table has no column of tests."""
        if not self.header:
            return [] if self.refers else [["the page"]]
        if not TESTS.search(self.header[-1]):
            return [["the table"]]
        return [row for row in self.rows if not TESTS.search(row[-1]) and not row[-1].startswith("none: ") and not self.names_in(row)]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "tests/net").mkdir(parents=True)
        (root / "tests/net/way_test.cc").write_text("BOOST_AUTO_TEST_CASE(it_is_as_it_is) // MUST-2..5, MUST-3, MUST-8")
        cases = "#define CW_WAY_SUITE(X) \\\n  X(it_is_so_everywhere) \\\n  X(it_ends)\n#define Y X(no_case_of_it)\n"
        (root / "tests/net/ways.hh").write_text(cases)
        row = "| 1 (MUST-2..4, 8) | `net/way`, it_is_as_it_is, `gone`, it_is_so_everywhere, it_is_not_there, no_case_of_it |"
        rows = f"{row}\n| 2 | it is as it is |\n| 3 | none: nobody can |\n"
        (root / "page.md").write_text(f"# RFC 1: x\n| section | test |\n| --- | --- |\n{rows}\nNot MUST-20.\n")
        (root / "bare.md").write_text("# RFC 2: y\n| section | where |\n| --- | --- |\n| 1 | here |\n")
        (root / "refers.md").write_text("# RFC 3\nOn the page of [RFC 1](page.md).\n")
        tests = Tests(root)
        missing = [name for _, name in Page(root / "page.md").named() if not tests.has(name)]
        unheld = sorted(Page(root / "page.md").claimed() - tests.musts)
        unnamed = [row[0] for page in ("page", "bare", "refers") for row in Page(root / f"{page}.md").unnamed()]
        spoken_of = Page(root / "page.md").spoken_of
    if missing != ["gone", "it_is_not_there", "no_case_of_it"] or unnamed != ["2", "the table"] or unheld != [2, 4] or \
            spoken_of != {2, 3, 4, 8, 20}:
        print(f"self-test: found {missing}, {unnamed}, {unheld} and {sorted(spoken_of)}")
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
    unnamed = [(p.number, row[0]) for p in pages for row in p.unnamed()]
    unheld = [(p.number, n) for p in pages for n in sorted(p.claimed() - tests.musts)]
    silent = sorted(DEMANDS - set().union(*(p.spoken_of for p in pages)))
    if options.check:
        for n in silent:
            print(f"docs/rfc: MUST-{n} of RFC 9293 stands on no page")
        for number, n in unheld:
            print(f"docs/rfc/{number}.md: MUST-{n} is claimed, and no test names it")
        for number, row, name in missing:
            print(f"docs/rfc/{number}.md: '{row}' names {name}, which is no test")
        for number, row in unnamed:
            print(f"docs/rfc/{number}.md: '{row}' names no test")
        rows = sum(len(p.rows) for p in pages)
        held = len(set().union(*(p.claimed() for p in pages)))
        print(f"docs/rfc: {len(pages)} pages, {rows} rows, {len(missing)} tests that are not there, {len(unnamed)} rows without any; "
              f"{held} MUSTs, {len(unheld)} of them in no test")
        return 1 if missing or unnamed or unheld or silent or not pages else 0
    print("| RFC | title | rows | tests |\n| --- | --- | --- | --- |")
    for p in pages:
        named = sorted({name for _, name in p.named() if "_" not in name or "/" in name})
        print(f"| [{p.number.lstrip('0')}]({p.number}.md) | {p.title} | {len(p.rows)} | {', '.join(named)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
