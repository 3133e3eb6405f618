#!/bin/bash
# The harness of tools/bench by itself: rows, targets, tries, output. No program of ours is run.
set -euo pipefail
exec python3 -B -m unittest discover -s "$COREWIRE_SOURCE_DIR/tests/bench" -p '*_test.py' -v
