#!/bin/bash
# tools/check does not pass over a skipped virtual machine in silence.
# ctest: only=release
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/with" "$scratch/without"
for tool in bash grep sed paste uname; do ln -s "$(command -v $tool)" "$scratch/with/"; done
cp -P "$scratch"/with/* "$scratch/without/"
printf '#!/bin/sh\n' >"$scratch/with/qemu-system-x86_64"
chmod +x "$scratch/with/qemu-system-x86_64"
report() { # STATUS of vm/suites
    printf '<testsuite>\n\t<testcase name="net/tcp/a" status="notrun">\n\t<testcase name="vm/suites" classname="x" time="1" status="%s">\n' "$1" \
        >"$scratch/report.xml"
}
expect() { # STATUS PATH [VARIABLE=VALUE]
    local wanted=$1 path=$2 got=0
    shift 2
    env -i PATH="$path" COREWIRE_MACHINE=x86_64 "$@" "$COREWIRE_SOURCE_DIR/tests/vm/proved" "$scratch/report.xml" 2>"$scratch/said" || got=$?
    [[ $got == "$wanted" ]] || { echo "status $got, not $wanted: $(cat "$scratch/said")"; exit 1; }
}
report run
expect 0 "$scratch/with" COREWIRE_REQUIRE_VM=1
[[ ! -s $scratch/said ]]
report notrun
expect 1 "$scratch/with"
grep -q 'NOT PROVED.* vm/suites was skipped' "$scratch/said"
expect 0 "$scratch/with" COREWIRE_MACHINE=aarch64
expect 0 "$scratch/without"
grep -q 'NOT PROVED' "$scratch/said" # in words all the same
expect 1 "$scratch/without" COREWIRE_REQUIRE_VM=1
