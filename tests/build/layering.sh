#!/bin/bash
# Includes point one way: reactor <- net <- rdma <- apps. First the check itself is checked.
# ctest: only=release
set -euo pipefail
python3 "$COREWIRE_SOURCE_DIR/tools/tidy/layering.py" --self-test
python3 "$COREWIRE_SOURCE_DIR/tools/tidy/layering.py" "$COREWIRE_SOURCE_DIR"
