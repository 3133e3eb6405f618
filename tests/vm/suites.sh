#!/bin/bash
# The RDMA suites on a real kernel driver, in the virtual machine; then programs nobody here wrote, on the same devices.
# ctest: timeout=420 processors=2 resource_lock=virtual_machine only=release
set -euo pipefail
script=$(mktemp)
trap 'rm -f "$script"' EXIT
cat >"$script" <<'END'
status=0
run() {
    echo "vm: $*"
    "$@" || status=1
}
run test_vm_guest --log_level=test_suite --color_output=no --catch_system_errors=no
run test_rdma_verbs --color_output=no --catch_system_errors=no
exit $status
END
"$COREWIRE_SOURCE_DIR/tests/vm/run" --timeout 360 --add "$COREWIRE_BINARY_DIR/bin/test_vm_guest" \
    --add "$COREWIRE_BINARY_DIR/bin/test_rdma_verbs" "$script"
