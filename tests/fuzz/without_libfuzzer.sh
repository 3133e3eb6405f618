#!/bin/bash
# tools/fuzz says SKIPPED to CTest, and fails by hand, without clang 19 and without its libFuzzer; with both, CTest's build takes two jobs.
# ctest: timeout=30 only=release
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(python3 -c 'import sys; print(sys.executable)')

fail() {
    echo "failed: $*: status $status, $said"
    exit 1
}
fuzz() { # what it needs of PATH is what this test has put there
    status=0
    said=$(PATH=$work/bin "$python" "$COREWIRE_SOURCE_DIR/tools/fuzz" "$@" 2>&1) || status=$?
}
skips() {
    for how in --build --built; do
        fuzz "$how"
        [[ $status == 0 && $said == "SKIPPED: $1 is missing: tools/install_packages fuzz" ]] || fail "$how without $1"
    done
    fuzz --list
    [[ $status == 1 && $said == "tools/fuzz: $1 is missing: "* ]] || fail "--list without $1"
}

mkdir "$work/bin"
skips clang++-19
# It answers with the name alone when it has no such file.
printf '#!/bin/sh\necho "${1#-print-file-name=}"\n' >"$work/bin/clang++-19"
chmod +x "$work/bin/clang++-19"
skips "clang++-19's libFuzzer"
touch "$work/libclang_rt.fuzzer.a"
printf '#!/bin/sh\n[ "$1" != -print-file-name=libclang_rt.fuzzer.a ] || echo "%s"\n' "$work/libclang_rt.fuzzer.a" >"$work/bin/clang++-19"
printf '#!/bin/sh\necho "$@" >>"%s"\n' "$work/calls" >"$work/bin/cmake"
chmod +x "$work/bin/cmake"
fuzz --build
[[ $status == 0 && -z $said ]] || fail "--build"
[[ $(<"$work/calls") == "--preset fuzz
--build --preset fuzz --parallel 2 --target fuzzer" ]] || fail "the build's commands: $(<"$work/calls")"
