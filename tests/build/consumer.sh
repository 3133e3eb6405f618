#!/bin/bash
# The echo server of README.md, a program with options, metrics, messages and a thread of its own, and one with a simulated world build
# outside the tree against the installed copy, by find_package and by pkg-config, and work.
# ctest: timeout=900 processors=2 only=release
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$COREWIRE_SOURCE_DIR/tests/build/consumer" "$work/source"
sed -n '/^```cpp$/,/^```$/p' "$COREWIRE_SOURCE_DIR/README.md" | sed '/^```/d' >"$work/source/echo.cc"

cmake --install "$COREWIRE_BINARY_DIR" --prefix "$work/installed" >"$work/install.log"
echo "installed $(find "$work/installed" -name '*.hh' | wc -l) headers"
mv "$work/installed" "$work/moved" # nothing in it may depend on where it was installed

# Every public header alone, as a user compiles it.
echo "== public headers"
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name corewire.pc)")
export PKG_CONFIG_PATH
for header in "$work"/moved/include/corewire/*.hh; do
    printf '#include <corewire/%s>\n' "$(basename "$header")" >"$work/one.cc"
    # shellcheck disable=SC2046 # the flags are words
    "$COREWIRE_CXX" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only "$work/one.cc" \
        $(pkg-config --cflags corewire) || { echo "corewire/$(basename "$header") does not compile alone"; exit 1; }
done

# takes_orders PROGRAM: its thread has its shard count to three, and its message is in the log.
takes_orders() {
    timeout 60 "$1" --net=kernel --cores=1 --orders 3 2>"$work/said" || { cat "$work/said"; echo "$1 failed"; exit 1; }
    grep -q 'info s0 shop: 3 orders taken' "$work/said" || { cat "$work/said"; echo "$1 did not say what it did"; exit 1; }
}

echo "== find_package"
cmake -G Ninja -S "$work/source" -B "$work/by_cmake" -DCMAKE_CXX_COMPILER="$COREWIRE_CXX" \
    -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/by_cmake"
python3 "$work/source/talk.py" "$work/by_cmake/echo" --net=kernel --cores=1
takes_orders "$work/by_cmake/own"
timeout 60 "$work/by_cmake/world"

echo "== pkg-config"
# shellcheck disable=SC2046 # the flags are words
"$COREWIRE_CXX" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror "$work/source/echo.cc" \
    $(pkg-config --cflags --libs corewire) -o "$work/by_pkg_config"
python3 "$work/source/talk.py" "$work/by_pkg_config" --net=kernel --cores=1
# shellcheck disable=SC2046
"$COREWIRE_CXX" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror "$work/source/own.cc" \
    $(pkg-config --cflags --libs corewire) -o "$work/own_by_pkg_config"
takes_orders "$work/own_by_pkg_config"
# shellcheck disable=SC2046
"$COREWIRE_CXX" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror "$work/source/world.cc" \
    $(pkg-config --cflags --libs corewire) -o "$work/world_by_pkg_config"
timeout 60 "$work/world_by_pkg_config"
