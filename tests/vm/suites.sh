#!/bin/bash
# The RDMA suites on a real kernel driver, in the virtual machine.
# They end within six minutes (tests/vm/run); CTest waits longer for a kernel that is fetched first.
# ctest: timeout=600 processors=2 resource_lock=virtual_machine only=release
exec "$COREWIRE_SOURCE_DIR/tests/vm/run"
