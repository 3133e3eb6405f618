#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2 serial=yes
# Our stack and the kernel over a tap device, each in turn as the server.
source "${0%/*}/common.sh"
COREWIRE_LINK=tap play kernel_calls we_call
