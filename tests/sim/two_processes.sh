#!/bin/bash
# The same seeds in several processes, with and without random addresses: the same packets. Where memory lies, and what another process
# was given, must be nothing that a simulation can see.
# ctest: timeout=300
set -euo pipefail

# digest COMMAND...: what the suite says of its worlds.
digest() {
    "$@" "$COREWIRE_BINARY_DIR/bin/test_sim" --run_test=process_digest --log_level=message --color_output=no \
        --catch_system_errors=no >"$work/said" 2>&1 || { cat "$work/said"; echo "the program failed" >&2; exit 1; }
    grep -o 'digest [0-9a-f]\{16\}' "$work/said" || { cat "$work/said"; echo "the program said no digest" >&2; exit 1; }
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
    echo "addresses cannot be fixed here: $(cat "$work/why")"
fi
