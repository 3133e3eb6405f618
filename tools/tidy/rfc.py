#!/usr/bin/env python3
"""The RFCs that docs/rfc speaks of, as one table; and whether the tests that its pages name are there.

    tools/tidy/rfc.py            prints the table: RFC, title, rows, the tests named
    tools/tidy/rfc.py --check    says what is named and is not there, and fails

In a page, the last column of a table names tests: `suite` or `folder/suite` (tests/folder/suite_test.cc), a folder of tests, a script, or
the name of a test case, also one that several suites run (tests/support/socket_suite.hh). Each row names one, or says "none: why". A
case that stands behind a suite, a folder or "the suite of all providers" is one of theirs: "`loss`: a_case, another; `net/tcp/undo`: a_third".
A page without a table says on which page its RFC is.

RFC 9293 numbers what it demands: a row that claims "MUST-24..28" or "MUST-38, 39" is held to it by tests that say MUST-24, MUST-25 and so on,
each number by itself, beside what asserts it. All 69 stand on some page, if only to say why not."""
import argparse
import pathlib
import re
import sys
import tempfile

CASE = re.compile(r"\bBOOST_\w+_TEST_CASE\w*\(\s*(\w+)")
LIST = re.compile(r"#define\s+(\w+_SUITE)\(X\)((?:.*\\\n)*.*)")  # cases that are compiled once for each port, and declared in one list
LIST_USED = re.compile(r"^(\w+_SUITE)\(\w+\)", re.M)
FUNCTION = re.compile(r"^\w[\w<>: ]*\b([a-z0-9]+(?:_[a-z0-9]+)+)\(", re.M)  # what such a list names, where it is written: tests/support
EVERYWHERE = "the suite of all providers"
LISTED = re.compile(r"\bX\(\s*(\w+)\s*\)")
NAMED = re.compile(r"`([^`]+)`")
TESTS = re.compile(r"^(?:test|script)")  # the head of a column that names tests; a page may have several tables
CLAIM = re.compile(r"\bMUST-(\d+)((?:(?:\.\.|, | to )\d+\b)*)")
DEMANDS = frozenset(range(1, 70))  # RFC 9293 appendix B: each is met, or its page says why not
LONG_WORD = re.compile(r"(?<![\w`/.])[a-z0-9]+(?:_[a-z0-9]+){2,}(?![\w`/.])")
PIECE = re.compile(rf"`([^`]+)`|({LONG_WORD.pattern})")


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
    """What there is below tests/: suites, folders, scripts, and the names of cases in each."""

    def __init__(self, root):
        self.inside, self.musts, lists, uses = {}, set(), {}, {}  # inside: the cases of what a page can name, by every ending of its path
        for path in (root / "tests").rglob("*"):
            inside = path.relative_to(root).as_posix()
            text = path.read_text() if path.suffix in (".cc", ".hh", ".pkt") else ""
            self.musts |= {int(n) for n in re.findall(r"\bMUST-(\d+)\b(?!\.\.)", text)}
            if path.is_dir():
                self.add(inside, set())
            elif path.suffix in (".sh", ".py", ".script", ".pkt"):
                self.add(inside, {path.name, path.stem})
            elif path.suffix in (".cc", ".hh"):
                cases = set(CASE.findall(text))
                lists |= {name: set(LISTED.findall(listed)) for name, listed in LIST.findall(text)}
                if path.parent.name == "support":
                    cases |= set(FUNCTION.findall(text))
                self.add(inside, cases)
                uses[inside] = LIST_USED.findall(text)
        for inside, used in uses.items():
            self.add(inside, set().union(*(lists.get(name, set()) for name in used)))
        self.everywhere = set().union(*lists.values())
        self.cases = self.everywhere.union(*self.inside.values())

    def add(self, inside, cases):
        """net/tcp/closing_test.cc is also net/tcp/closing, tcp/closing and closing; and what is in it is in net/tcp, in tcp and in net."""
        plain = re.sub(r"(?:_test)?\.\w+$", "", inside)
        for parts in (inside.split("/"), plain.split("/")):
            for first in range(len(parts)):
                self.inside.setdefault("/".join(parts[first:]), set()).update(cases)
        folders = plain.split("/")[:-1]
        for last in range(1, len(folders) + 1):
            for first in range(last):
                self.inside.setdefault("/".join(folders[first:last]), set()).update(cases)

    @staticmethod
    def bare(name):
        return re.sub(r"(?:_test)?\.\w+$", "", name.removeprefix("tests/").rstrip("/"))

    def missing(self, cell):
        """(suite, name) of what a cell names and is not there: without a suite nowhere, with it not in that suite."""
        suite, end = "", 0
        for found in PIECE.finditer(cell):
            if EVERYWHERE in cell[end:found.start()]:
                suite = EVERYWHERE
            end = found.end()
            name = self.bare(found[1] or found[2])
            cases = self.everywhere if suite == EVERYWHERE else self.inside.get(suite, self.cases)
            if name in cases:
                continue
            if found[1] and name in self.inside:
                suite = "" if name.rpartition("/")[2] in self.inside[name] else name  # a script is a test by itself
            else:
                yield suite, found[1] or found[2]


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

    def tested(self):
        """Every row, where the table has a column of tests."""
        return self.rows if self.header and TESTS.search(self.header[-1]) else []

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
        (root / "tests/net/user_test.cc").write_text("CW_WAY_SUITE(CASE)\n")
        (root / "tests/net/played.pkt").write_text("")
        row = "| 1 (MUST-2..4, 8) | it_is_not_there, `gone`, `net/way`, it_is_as_it_is, no_case_of_it, it_is_so_everywhere |"
        rows = f"{row}\n| 2 | it is as it is |\n| 3 | none: nobody can |\n| 4 | `user`: it_is_so_everywhere, `way` it_is_as_it_is |\n"
        rows += "| 5 | `way`: it_is_as_it_is; and so on: `user`: it_is_as_it_is; `played`, it_is_as_it_is |\n"
        rows += "| 6 | the suite of all providers: it_is_so_everywhere, it_is_as_it_is; `net`: it_is_as_it_is, `played`, `unplayed` |\n"
        (root / "page.md").write_text(f"# RFC 1: x\n| section | test |\n| --- | --- |\n{rows}\nNot MUST-20.\n")
        (root / "bare.md").write_text("# RFC 2: y\n| section | where |\n| --- | --- |\n| 1 | here |\n")
        (root / "refers.md").write_text("# RFC 3\nOn the page of [RFC 1](page.md).\n")
        tests = Tests(root)
        missing = [each for row in Page(root / "page.md").tested() for each in tests.missing(row[-1])]
        unheld = sorted(Page(root / "page.md").claimed() - tests.musts)
        unnamed = [row[0] for page in ("page", "bare", "refers") for row in Page(root / f"{page}.md").unnamed()]
        spoken_of = Page(root / "page.md").spoken_of
    expected = [("", "it_is_not_there"), ("", "gone"), ("net/way", "no_case_of_it"), ("net/way", "it_is_so_everywhere"),
                ("user", "it_is_as_it_is"), (EVERYWHERE, "it_is_as_it_is"), ("net", "unplayed")]
    if missing != expected or unnamed != ["2", "the table"] or unheld != [2, 4] or \
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
    missing = [(p.number, row[0], *each) for p in pages for row in p.tested() for each in tests.missing(row[-1])]
    unnamed = [(p.number, row[0]) for p in pages for row in p.unnamed()]
    unheld = [(p.number, n) for p in pages for n in sorted(p.claimed() - tests.musts)]
    silent = sorted(DEMANDS - set().union(*(p.spoken_of for p in pages)))
    if options.check:
        for n in silent:
            print(f"docs/rfc: MUST-{n} of RFC 9293 stands on no page")
        for number, n in unheld:
            print(f"docs/rfc/{number}.md: MUST-{n} is claimed, and no test names it")
        for number, row, suite, name in missing:
            print(f"docs/rfc/{number}.md: '{row}' names {name}, which is no test" + (f" of {suite}" if suite else ""))
        for number, row in unnamed:
            print(f"docs/rfc/{number}.md: '{row}' names no test")
        rows = sum(len(p.rows) for p in pages)
        held = len(set().union(*(p.claimed() for p in pages)))
        print(f"docs/rfc: {len(pages)} pages, {rows} rows, {len(missing)} tests that are not there, {len(unnamed)} rows without any; "
              f"{held} MUSTs, {len(unheld)} of them in no test")
        return 1 if missing or unnamed or unheld or silent or not pages else 0
    print("| RFC | title | rows | tests |\n| --- | --- | --- | --- |")
    for p in pages:
        named = sorted({name for row in p.tested() for name in p.names_in(row) if "_" not in name or "/" in name})
        print(f"| [{p.number.lstrip('0')}]({p.number}.md) | {p.title} | {len(p.rows)} | {', '.join(named)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
