#!/bin/bash
# The tests that docs/rfc names are there. First the check itself is checked.
# ctest: only=release
set -euo pipefail
python3 "$COREWIRE_SOURCE_DIR/tools/tidy/rfc.py" --self-test
python3 "$COREWIRE_SOURCE_DIR/tools/tidy/rfc.py" --check "$COREWIRE_SOURCE_DIR"
python3 "$COREWIRE_SOURCE_DIR/tools/tidy" "$COREWIRE_SOURCE_DIR" | grep "^| \[9293\]" >/dev/null # and the table is printed
