#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2
# Our stack and the kernel over IPv6, over a tap device and over AF_XDP.
source "${0%/*}/common.sh"
if [[ ! -e /proc/sys/net/ipv6 ]]; then
    echo "SKIPPED: this kernel has no IPv6"
    exit 0
fi
for link in tap native; do COREWIRE_LINK=$link play ipv6; done
