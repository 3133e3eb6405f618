#!/bin/bash
# The RDMA suites on a real kernel driver, in the virtual machine.
# ctest: timeout=720 processors=2 resource_lock=virtual_machine only=release
exec "$COREWIRE_SOURCE_DIR/tests/vm/run"
