#!/bin/bash
# The tools that are scripts, by themselves: what they say when what they start fails. Nothing is built, played or installed.
# ctest: timeout=60 only=release
set -euo pipefail
exec python3 -B -m unittest discover -s "$COREWIRE_SOURCE_DIR/tests/tools" -p 'scripts_test.py' -v
