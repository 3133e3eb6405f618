#!/bin/bash
# cw-portbench takes what it knows and nothing else, and ends.
# ctest: timeout=60 processors=2 only=release root=yes
set -euo pipefail
bench=$COREWIRE_BINARY_DIR/bin/cw-portbench

# ends WITH PATTERN ARGUMENT...: this exit status within 20 s, and stdout and stderr together have the pattern.
ends() {
    local wanted=$1 pattern=$2 status=0 said
    shift 2
    said=$(timeout 20 "$bench" "$@" 2>&1) || status=$?
    [[ $status == "$wanted" ]] && grep -Eq -- "$pattern" <<<"$said" || { echo "FAILED: $*: status $status: $said"; exit 1; }
}

ends 0 'as root: how fast' --help
ends 2 'Native' Native
ends 2 'size' generic 100000 1 1
ends 2 'in-flight' generic 64 0 0.2
ends 2 'seconds' generic 64 1 soon
ends 0 '^generic 64 B, 1 in flight: p50 [0-9.]+ us' generic 64 1 0.2
ends 0 '^generic 200 B, 100 in flight: p50 [0-9.]+ us' generic 200 100 0.2
echo "it ends"
