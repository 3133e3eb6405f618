#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2
# Our stack in a VLAN and the kernel's VLAN interface, over a tap device and over AF_XDP in both modes.
source "${0%/*}/common.sh"
if ! unshare --net bash -c 'ip link add a type veth peer name b && ip link add link a name a.7 type vlan id 7' 2>/dev/null; then
    echo "SKIPPED: this kernel makes no VLAN interfaces (8021q); interop/vlan checks the bytes of the tags"
    exit 0
fi
for link in tap generic native; do COREWIRE_LINK=$link play vlan.KernelInterface; done
