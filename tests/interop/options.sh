#!/bin/bash
# ctest: timeout=600 root=yes resource_lock=network_namespaces processors=2
# Every option of TCP turned at the kernel's end, and at ours, with loss and reordering at ours, over a tap device and over AF_XDP; data in
# SYNs, both ways.
source "${0%/*}/common.sh"
if [[ ! -e /proc/sys/net/ipv6 ]]; then
    echo "SKIPPED: this kernel has no IPv6"
    exit 0
fi
for link in tap native; do COREWIRE_LINK=$link play options; done
