#!/bin/bash
# A program outside the tree builds against the installed copy, by find_package and by pkg-config, and runs.
# ctest: timeout=300 only=release
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$COREWIRE_SOURCE_DIR/tests/build/consumer" "$work/source"

cmake --install "$COREWIRE_BINARY_DIR" --prefix "$work/installed" >"$work/install.log"
echo "installed $(find "$work/installed" -name '*.hh' | wc -l) headers"
mv "$work/installed" "$work/moved" # nothing in it may depend on where it was installed

echo "== find_package"
cmake -G Ninja -S "$work/source" -B "$work/by_cmake" -DCMAKE_CXX_COMPILER="$COREWIRE_CXX" \
    -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/by_cmake"
"$work/by_cmake/consumer"

echo "== pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name corewire.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # the flags are words
"$COREWIRE_CXX" -std=c++20 -O1 "$work/source/main.cc" $(pkg-config --cflags --libs corewire) -o "$work/by_pkg_config"
"$work/by_pkg_config"
