#!/bin/bash
# tools/bench runs real programs and prints a row; what the figure is does not matter here.
# ctest: processors=2 timeout=180
set -euo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
"$COREWIRE_SOURCE_DIR/tools/bench" rtt --json --rounds 1 --seconds 0.2 --patience 0 --build "$COREWIRE_BINARY_DIR" \
    --only tcp-64B-same-core --only submit-idle --only kernel-echo-vs-epoll >"$out" || status=$?
[[ $status == 0 || $status == 1 ]] || { echo "exit status $status"; exit 1; }
python3 - "$out" "$status" <<'PYTHON'
import json, sys
report, status = json.load(open(sys.argv[1])), int(sys.argv[2])
assert set(report["environment"]) == {"cpu", "cores", "kernel", "compiler", "commit", "date"}
rows = {row["row"]: row for row in report["rows"]}
assert set(rows) == {
    "tcp-64B-same-core", "submit-idle", "kernel-echo-vs-epoll"}, list(rows)
for row in rows.values():
    assert "error" not in row, row
    assert row["value"] > 0 and row["baseline"] > 0 and row["ratio"] > 0 and row["samples"], row
assert (status == 0) == all(row["holds"] for row in rows.values())
PYTHON
echo "three rows measured"
