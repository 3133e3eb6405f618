#!/bin/bash
# The service in docs/RDMA.md is docs/rdma/service.cc, which tests/vm/guest/suites runs as two processes, and has 40 lines at most.
# ctest: only=release
set -euo pipefail
cd "$COREWIRE_SOURCE_DIR"
page=$(sed -n '/^```cpp$/,${p;/^```$/q}' docs/RDMA.md | sed '1d;$d') # its first piece of code
diff <(echo "$page") docs/rdma/service.cc
lines=$(wc -l <docs/rdma/service.cc)
echo "$lines lines"
((lines > 10 && lines <= 40))
