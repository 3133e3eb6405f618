#!/bin/bash
# The RDMA suites on a real kernel driver, in the virtual machine: what failed of them is printed, all they said is in vm_suites.log of
# the build. They end within six minutes (tests/vm/run); CTest waits longer for a kernel that is fetched first.
# ctest: timeout=600 processors=2 resource_lock=virtual_machine only=release
log=$COREWIRE_BINARY_DIR/vm_suites.log
status=0
"$COREWIRE_SOURCE_DIR/tests/vm/run" >"$log" 2>&1 || status=$?
"$COREWIRE_SOURCE_DIR/tests/vm/failures" STATUS=$status "$log"
exit $status
