#!/bin/bash
# tools/bench runs real programs and prints a row; what the figure is does not matter here.
# ctest: processors=2 timeout=360 only=release
set -euo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# measured SUITE ROW...: each of these rows can be measured here.
measured() {
    local suite=$1 status=0
    shift
    "$COREWIRE_SOURCE_DIR/tools/bench" "$suite" --json --rounds 1 --seconds 0.2 --patience 0 --build "$COREWIRE_BINARY_DIR" \
        $(printf -- '--only %s ' "$@") >"$out" || status=$?
    [[ $status == 0 || $status == 1 ]] || { echo "exit status $status"; exit 1; }
    python3 - "$out" "$status" "$@" <<'PYTHON'
import json, sys
report, status = json.load(open(sys.argv[1])), int(sys.argv[2])
assert set(report["environment"]) == {"cpu", "cores", "kernel", "compiler", "commit", "date"}
rows = {row["row"]: row for row in report["rows"]}
assert set(rows) == set(sys.argv[3:]), list(rows)
for row in rows.values():
    assert "error" not in row, row
    assert row["value"] > 0 and row["samples"], row
    assert row["baseline"] is None or (row["baseline"] > 0 and row["ratio"] > 0), row
assert (status == 0) == all(row["holds"] for row in rows.values())
PYTHON
    echo "$suite: $# rows measured"
}

measured rtt tcp-64B-same-core submit-idle kernel-echo-vs-epoll
# /dev/shm is half of the memory, and 64 MiB in a container that nobody has told otherwise.
tmpfs=read-4k-tmpfs
if (($(df --output=avail -B1M /dev/shm | tail -1) < 1280)); then
    echo "SKIPPED: $tmpfs: /dev/shm has no room for its file (1.25 GiB)"
    tmpfs=
fi
measured reactor timer-arm-cancel uring-nops task-ready task-switch task-yield error-result error-exception semaphore \
         $tmpfs scrape-10k
measured tcp bulk-wire-loss-1000 short-wire goodput-1-percent
