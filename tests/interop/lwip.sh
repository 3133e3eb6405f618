#!/bin/bash
# ctest: timeout=240 root=yes resource_lock=network_namespaces processors=2 only=release
# Our stack and lwIP (liblwip-dev), over a tap device and over AF_XDP in both modes, each in turn as the server.
source "${0%/*}/common.sh"
if ! unshare --net ip link add cwbridge type bridge 2>/dev/null; then
    echo "SKIPPED: this kernel makes no bridges"
    exit 0
fi
if ! pkg-config --exists lwip; then
    echo "SKIPPED: there is no lwIP here (liblwip-dev)"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${COREWIRE_CXX:-c++}" -std=c++20 -O1 -Wall -Wextra -o "$folder/lwip_peer" lwip_peer.cc $(pkg-config --cflags --libs lwip)
export COREWIRE_LWIP_PEER=$folder/lwip_peer
for link in tap generic native; do COREWIRE_LINK=$link play lwip; done
