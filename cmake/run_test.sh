#!/bin/bash
# Runs one test for CTest and exits with its status, or with 77 (skipped) when it succeeds and has printed a line
# `SKIPPED: why`. A failure is never hidden by a skipped part.
if [[ -n $COREWIRE_TEST_NEEDS_ROOT && $(id -u) != 0 ]]; then
    echo "SKIPPED: needs root"
    exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
if [[ $status == 0 ]] && grep -q '^SKIPPED:' "$log"; then
    exit 77
fi
exit "$status"
