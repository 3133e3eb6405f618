#!/bin/bash
# ctest: timeout=400 root=yes resource_lock=network_namespaces processors=2
# Our stack on the kernel's own address (--shared), over AF_XDP in both modes.
source "${0%/*}/common.sh"
for link in generic native; do COREWIRE_LINK=$link play shared_address; done
if [[ -e /proc/sys/net/ipv6 ]]; then COREWIRE_LINK=native play shared_ipv6; fi
