#!/bin/bash
# The same seeds in several processes, with and without random addresses: the same packets. Where memory lies, and what another process
# was given, must be nothing that a simulation can see.
# ctest: timeout=300
set -euo pipefail

# digest COMMAND...: what the suite says of its worlds. All that a program said that fails, or says no digest, goes to stderr: stdout is the
# caller's.
digest() {
    local status=0
    "$@" "$COREWIRE_BINARY_DIR/bin/test_sim" --run_test=process_digest --log_level=message --color_output=no \
        --catch_system_errors=no >"$work/said" 2>&1 || status=$?
    [[ $status == 0 ]] || { printf '%s\nfailed with %s: %s\n' "$(<"$work/said")" $status "$*" >&2; exit 1; }
    grep -o 'digest [0-9a-f]\{16\}' "$work/said" || { printf '%s\nno digest: %s\n' "$(<"$work/said")" "$*" >&2; exit 1; }
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
once=$(digest env)
again=$(digest env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 MALLOC_PERTURB_=85)
[ "$once" = "$again" ] || { echo "two processes: $once, $again"; exit 1; }
echo "two processes: $once"
if setarch -R true 2>"$work/why"; then
    fixed=$(digest setarch -R)
    [ "$once" = "$fixed" ] || { echo "with addresses that are fixed: $fixed, and not $once"; exit 1; }
    echo "and with addresses that are fixed"
else
    echo "SKIPPED: addresses cannot be fixed here: $(cat "$work/why")"
fi
