#!/bin/bash
# The RDMA suites on a real kernel driver, in the virtual machine; then cw-rdma-pingpong between two processes, of which one client
# is killed in the middle.
# ctest: timeout=600 processors=2 resource_lock=virtual_machine only=release
set -euo pipefail
script=$(mktemp)
trap 'rm -f "$script"' EXIT
cat >"$script" <<'END'
status=0
run() {
    echo "vm: $*"
    "$@" || { status=1; echo "vm: failed: $*"; }
}
run test_vm_guest --log_level=test_suite --color_output=no --catch_system_errors=no
run test_rdma_verbs --color_output=no --catch_system_errors=no

# A server, and clients on the other device. One dies in the middle of its run; the next ones are served all the same.
cw-rdma-pingpong --address 192.0.2.2 --events &
server=$!
sleep 1
client() { cw-rdma-pingpong --connect 192.0.2.2:7472 --from 192.0.2.1 --events "$@"; }
client --duration 60 &
victim=$!
sleep 2
kill -9 $victim
for protocol in rc-send rc-write ud; do run client --protocol $protocol --count 200 --json; done
kill -0 $server || { status=1; echo "vm: the server has gone"; }
kill -9 $server
exit $status
END
bin=$COREWIRE_BINARY_DIR/bin
"$COREWIRE_SOURCE_DIR/tests/vm/run" --timeout 540 --add "$bin/test_vm_guest" --add "$bin/test_rdma_verbs" --add "$bin/cw-rdma-pingpong" "$script"
