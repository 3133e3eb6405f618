#!/bin/bash
# Two virtual machines on one cable, a host each: messages over RDMA, and our TCP/IP over UD datagrams, from kernel to kernel.
# Over within six minutes, as each machine's run is; CTest waits longer for a kernel that is fetched first.
# ctest: timeout=600 processors=2 resource_lock=virtual_machine only=release
set -euo pipefail
set -m # the first machine and its QEMU are a process group, to be ended together
scratch=$(mktemp -d)
server=
cleanup() {
    [[ -z $server ]] || kill -- -"$server" 2>/dev/null || true
    wait || true
    rm -rf "$scratch"
}
trap cleanup EXIT
cat >"$scratch/script" <<'END'
if [ "$VM_HOST" = 1 ]; then
    cw-rdma-pingpong --address 192.0.2.1 --events >pingpong.log 2>&1 &
    cw-echo --net=verbs-ud --interface eth0 --address 10.77.0.1/24 >echo.log 2>&1 &
    tries=0
    until grep -q 'listening at' pingpong.log && grep -q '^cw-echo: ' echo.log; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "vm: the servers do not start"; cat ./*.log; exit 1; }
        usleep 100000
    done
    nc -l -p 9998 >/dev/null # says that they have
    nc -l -p 9999 >/dev/null # until the other one has done
    exit 0
fi
status=0
run() { # SECONDS PROGRAM [ARGUMENT]...
    echo "vm: $*"
    bounded "$@" || { status=1; echo "vm: failed: $*"; }
}
tries=0
until ping -c 1 -W 1 192.0.2.1 >/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 120 ] || { echo "vm: the other host does not answer"; exit 1; }
done
tries=0
until nc 192.0.2.1 9998 </dev/null 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { echo "vm: the servers of the other host do not start"; exit 1; }
    usleep 100000
done
for protocol in rc-send rc-write ud; do
    run 30 cw-rdma-pingpong --connect 192.0.2.1:7472 --from 192.0.2.2 --events --protocol $protocol --count 100 --json
done
over="cw-pingpong --net=verbs-ud --interface eth0 --connect 10.77.0.1:7" # each with an address of its own, or it is believed two seconds later
run 30 $over --address 10.77.0.2/24 --count 100 --json
run 30 $over --address 10.77.0.3/24 --connections 8 --size 3000 --count 200 --json
run 30 $over --address 10.77.0.4/24 --udp --size 900 --count 100 --json
nc 192.0.2.1 9999 </dev/null
exit $status
END
bin=$COREWIRE_BINARY_DIR/bin
machine() { # 1|2 SECONDS
    "$COREWIRE_SOURCE_DIR/tests/vm/run" --timeout "$2" --host "$1" --cable "$scratch/cable" --add "$bin/cw-rdma-pingpong" \
        --add "$bin/cw-echo" --add "$bin/cw-pingpong" "$scratch/script"
}
# One after the other: a machine that is started again, since it did not boot, makes a new socket, and two that boot at once are slow.
mkdir "$scratch/host1"
TMPDIR=$scratch/host1 machine 1 340 >"$scratch/first" 2>&1 &
server=$!
for ((tries = 0; tries < 3000; ++tries)); do
    ! grep -qs ' begin' "$scratch"/host1/*/console || break
    if ! kill -0 "$server" 2>/dev/null; then # skipped, most likely
        status=0
        wait "$server" || status=$?
        server=
        cat "$scratch/first"
        exit "$status"
    fi
    sleep 0.1
done
status=0
left=$((340 - SECONDS))
((left >= 120)) || left=120 # it was the fetching that took so long
machine 2 "$left" || status=$?
[[ $status == 0 ]] || sed 's/^/first: /' "$scratch/first"
wait "$server" || { sed 's/^/first: /' "$scratch/first"; status=1; }
server=
exit "$status"
