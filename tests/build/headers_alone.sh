#!/bin/bash
# Every header compiles alone, with the warnings a careful user turns on.
# ctest: timeout=600 processors=2 only=release
set -euo pipefail
cd "$COREWIRE_BINARY_DIR"
cflags=$(pkg-config --cflags liburing fmt hwloc libxdp libbpf libmnl libibverbs librdmacm nlohmann_json)
check() {
    # shellcheck disable=SC2086 # the flags are words
    echo "#include <$1>" | "$COREWIRE_CXX" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror \
        -I "$COREWIRE_BINARY_DIR/include" $cflags -x c++ - || { echo "does not compile alone: <$1>"; return 1; }
}
export -f check
export cflags
cd include
find -L corewire -name '*.hh' -not -path 'corewire/apps/runtime/public/*' | sort >../headers.txt
echo "$(wc -l <../headers.txt) headers"
xargs -a ../headers.txt -P "$(nproc)" -I{} bash -c 'check {}'
