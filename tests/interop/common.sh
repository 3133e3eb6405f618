# Sourced by the tests here. play MODULE...: the cases of these Python modules, over the cable in $COREWIRE_LINK.
set -euo pipefail
if [[ $(id -u) != 0 ]]; then
    echo "SKIPPED: needs root"
    exit 0
fi
if ! unshare --net true 2>/dev/null; then
    echo "SKIPPED: network namespaces cannot be made here"
    exit 0
fi
if [[ ! -e /dev/net/tun ]]; then
    echo "SKIPPED: there is no /dev/net/tun"
    exit 0
fi
cd "${BASH_SOURCE[0]%/*}"

play() { python3 -B -m unittest -v "$@"; }
