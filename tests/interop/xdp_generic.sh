#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2 serial=yes
# Our stack and the kernel over AF_XDP in generic mode on a veth pair, each in turn as the server.
source "${0%/*}/common.sh"
COREWIRE_LINK=generic play kernel_calls we_call
