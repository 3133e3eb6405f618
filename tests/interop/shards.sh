#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2
# One address served by two shards, over AF_XDP on a veth pair with two queues and over a tap device with two.
source "${0%/*}/common.sh"
for link in generic native tap; do COREWIRE_LINK=$link play two_shards; done
