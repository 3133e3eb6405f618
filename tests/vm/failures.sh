#!/bin/bash
# Of a run in the virtual machine one reads what failed, and no more.
# ctest: only=release
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/log" <<'END'
vm: fetching a kernel
vm: at 0 s: 60 first
the first has passed
vm: at 1 s: 60 second
Test suite "other" is skipped because disabled
the second has not
vm: failed with 201: second
vm: at 2 s: 60 third
the third was running
END
read_it() { # STATUS EXPECTED
    local said
    said=$("$COREWIRE_SOURCE_DIR/tests/vm/failures" STATUS="$1" "$scratch/log")
    [[ $said == "$2" ]] || { printf 'status %s:\n%s\nwanted:\n%s\n' "$1" "$said" "$2"; exit 1; }
}
common='vm: fetching a kernel
vm: at 0 s: 60 first
vm: at 1 s: 60 second
the second has not
vm: failed with 201: second
vm: at 2 s: 60 third'
read_it 0 "$common"
read_it 124 "$common
the third was running"
