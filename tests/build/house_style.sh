#!/bin/bash
# The rules of docs/STYLE.md that a program can check. First the check itself is checked.
# ctest: only=release
set -euo pipefail
python3 "$COREWIRE_SOURCE_DIR/tools/tidy/house_style.py" --self-test
python3 "$COREWIRE_SOURCE_DIR/tools/tidy/house_style.py" "$COREWIRE_SOURCE_DIR"
