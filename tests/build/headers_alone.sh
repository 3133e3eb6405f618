#!/bin/bash
# Every header compiles alone, with the warnings a careful user turns on.
# ctest: timeout=600 processors=2 only=release
set -euo pipefail
# shellcheck disable=SC2046 # the flags are words
python3 "$COREWIRE_SOURCE_DIR/tests/build/headers_alone.py" "$COREWIRE_BINARY_DIR/include" "$COREWIRE_CXX" \
    $(pkg-config --cflags liburing fmt hwloc libxdp libbpf libmnl libibverbs librdmacm)
