#!/bin/bash
# The service in docs/RDMA.md is the one that tests/vm/guest/rdma_service_test.cc compiles and runs, and has 40 lines at most.
# ctest: only=release
set -euo pipefail
cd "$COREWIRE_SOURCE_DIR"
page=$(sed -n '/^```cpp$/,${p;/^```$/q}' docs/RDMA.md | sed '1d;$d') # its first piece of code
code=$(sed -n '/^\/\/ --- docs\/RDMA.md$/,/^\/\/ --- docs\/RDMA.md$/p' tests/vm/guest/rdma_service_test.cc | sed '1d;$d')
diff <(echo "$page") <(echo "$code")
lines=$(echo "$page" | wc -l)
echo "$lines lines"
((lines > 10 && lines <= 40))
