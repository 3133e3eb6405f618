#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2
# Our stack in a VLAN, over a tap device and over AF_XDP in both modes: every byte of the tag, what is left to the kernel, our
# own client.
source "${0%/*}/common.sh"
for link in tap generic native; do COREWIRE_LINK=$link play vlan.TaggedFrames; done
