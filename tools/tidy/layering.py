#!/usr/bin/env python3
"""Checks that includes point one way: reactor <- net <- rdma <- apps (tests/ and tools/ see all of them).

    layering.py [ROOT]       exit status 1 and one line for each violation
    layering.py --self-test  does each rule catch what it forbids?

The rules:
  1. a file in a layer includes <corewire/LAYER/...> of its own layer and of those to its left only;
  2. the facades (<corewire/tcp.hh>) are for users: of the layers only apps/ includes them;
  3. "quoted" includes name a file in the same folder; anything else is <corewire/...> (in tests: "tests/...");
  4. a <corewire/...> include names a file that exists;
  5. the verbs headers are seen by rdma/ alone (and tests/ and tools/).
"""
import re
import sys
import tempfile
from pathlib import Path

LAYERS = ["reactor", "net", "rdma", "apps"]
OBSERVERS = ["tests", "tools"]
INCLUDE = re.compile(r'^\s*#\s*include\s*(<([^>]+)>|"([^"]+)")')


def sources(root):
    for top in LAYERS + OBSERVERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".hh", ".cc", ".h", ".c") and path.is_file():
                yield path


def forbidden(root, path, angled, quoted):
    """Why this include is not allowed, or None."""
    relative = path.relative_to(root)
    layer = relative.parts[0]
    if quoted is not None:
        if layer in OBSERVERS and (root / quoted).is_file():
            return None
        if "/" in quoted:
            return f'"{quoted}" reaches into another folder: name it <corewire/...>'
        if not (path.parent / quoted).is_file():
            return f'"{quoted}" is not in this folder'
        return None
    if re.match(r"(infiniband|rdma)/", angled) and layer not in ["rdma"] + OBSERVERS:
        return f"<{angled}> belongs to rdma/"
    if not angled.startswith("corewire/"):
        return None
    parts = angled.split("/")
    if len(parts) == 2:
        if layer not in ["apps"] + OBSERVERS:
            return f"<{angled}> is a facade for users: include the header it stands for"
        target = root / "apps/runtime/public" / parts[1]
    else:
        target_layer = parts[1]
        if target_layer not in LAYERS:
            return f"<{angled}> names no layer"
        if layer in LAYERS and LAYERS.index(target_layer) > LAYERS.index(layer):
            return f"<{angled}>: {layer} may not see {target_layer}"
        target = root / Path(*parts[1:])
    return None if target.is_file() else f"<{angled}> does not exist"


def violations(root):
    for path in sources(root):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                why = forbidden(root, path, match.group(2), match.group(3))
                if why:
                    yield f"{path.relative_to(root)}:{number}: {why}"


def self_test():
    allowed = {
        "reactor/a/x.hh": "#include <vector>\n",
        "net/a/y.hh": '#include <corewire/reactor/a/x.hh>\n#include "z.hh"\n',
        "net/a/z.hh": "",
        "rdma/a/v.hh": "#include <infiniband/verbs.h>\n#include <corewire/net/a/y.hh>\n",
        "apps/runtime/public/tcp.hh": "#include <corewire/net/a/y.hh>\n",
        "apps/a/w.cc": "#include <corewire/tcp.hh>\n",
        "tests/support/s.hh": "",
        "tests/net/t_test.cc": '#include "tests/support/s.hh"\n#include <corewire/tcp.hh>\n',
    }
    forbidden_lines = {
        "reactor/a/up.hh": "#include <corewire/net/a/y.hh>\n",
        "net/b/up.hh": "#include <corewire/apps/a/w.cc>\n",
        "net/b/facade.hh": "#include <corewire/tcp.hh>\n",
        "net/b/quoted.hh": '#include "../a/y.hh"\n',
        "net/b/missing_quoted.hh": '#include "nothing.hh"\n',
        "net/b/missing.hh": "#include <corewire/net/a/nothing.hh>\n",
        "net/b/verbs.hh": "  #  include <infiniband/verbs.h>\n",
        "net/b/nowhere.hh": "#include <corewire/elsewhere/x.hh>\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**allowed, **forbidden_lines}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = sorted(line.split(":")[0] for line in violations(root))
    if found != sorted(forbidden_lines):
        print(f"self-test: expected {sorted(forbidden_lines)}, found {found}")
        return 1
    print(f"self-test: {len(found)} kinds of violation found")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(violations(root))
    print("\n".join(found + [f"layering: {len(found)} violations in {len(list(sources(root)))} files"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
