#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2
# Addresses from DHCP servers and from a router's advertisements, over a tap device and over AF_XDP, there with two shards.
source "${0%/*}/common.sh"
COREWIRE_LINK=tap play dhcp
COREWIRE_LINK=native COREWIRE_CORES=2 play dhcp
