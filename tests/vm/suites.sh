#!/bin/bash
# The RDMA suites on a real kernel driver, in the virtual machine; then cw-rdma-pingpong between two processes, of which one client
# is killed in the middle, cw-rdma-perf, which checks what it has moved, and our TCP and UDP over `verbs-ud`. Each program has a bound of its own and says what it was
# at when it stalls (guest/bounded); nothing that has failed is tried again.
# ctest: timeout=400 processors=2 resource_lock=virtual_machine only=release
set -euo pipefail
script=$(mktemp)
trap 'rm -f "$script"' EXIT
cat >"$script" <<'END'
status=0
began=$(cut -d. -f1 /proc/uptime)
elapsed() { echo $(($(cut -d. -f1 /proc/uptime) - began)); }
run() { # SECONDS PROGRAM [ARGUMENT]...
    echo "vm: at $(elapsed) s: $*"
    bounded "$@"
    ended=$?
    [ $ended = 0 ] && return
    echo "vm: failed with $ended: $*"
    status=1
    [ $ended != 124 ] || exit 1 # what a stall leaves in the kernel, the rest would stumble over
}
await() { # WHAT CONDITION...: at most ten seconds
    what=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { echo "vm: there is no $what"; cat ./*.log; exit 1; }
        usleep 50000
    done
}
says() { grep -q "$2" "$1"; } # FILE TEXT
pingpong_pairs() { [ "$(rdma resource show qp | grep -c 'type RC state RTS.*comm cw-rdma-pingpon')" -ge "$1" ]; }
suites=$(test_vm_guest --list_content 2>&1 | sed -n 's/^\([a-z_]*\)\*$/\1/p')
[ -n "$suites" ] || { echo "vm: test_vm_guest names no suites"; exit 1; }
for suite in $suites; do
    run 60 test_vm_guest --run_test="$suite" --log_level=unit_scope --color_output=no --catch_system_errors=no
done
run 60 test_rdma_verbs --color_output=no --catch_system_errors=no

# A server, and clients on the other device. One dies in the middle of its run; the next ones are served all the same.
cw-rdma-pingpong --address 192.0.2.2 --events >pingpong.log 2>&1 &
server=$!
await "server of cw-rdma-pingpong" says pingpong.log 'listening at'
connect="cw-rdma-pingpong --connect 192.0.2.2:7472 --from 192.0.2.1 --events"
$connect --duration 60 &
victim=$!
await "run of the client that is to die" pingpong_pairs 2
kill -9 $victim
for protocol in rc-send rc-write ud; do run 30 $connect --protocol $protocol --count 200 --json; done
cw-rdma-perf --address 192.0.2.2 --events >perf.log 2>&1 &
memory=$!
await "server of cw-rdma-perf" says perf.log 'listening at'
perf="cw-rdma-perf --connect 192.0.2.2:7474 --from 192.0.2.1 --events"
for operation in write read fetch-add compare-swap; do run 30 $perf --operation $operation --size 8192 --count 200 --json; done
kill -9 $memory

# Our stack over UD datagrams: addresses that this kernel knows nothing of, ARP and all of TCP between two processes.
cw-echo --net=verbs-ud --device rxe1 --address 10.77.0.2/24 >echo.log 2>&1 &
echo=$!
cw-echo --net=verbs-ud --device rxe1 --address 10.77.0.3/24 --port 9 --discard >sink.log 2>&1 &
sink=$!
await "echo server over verbs-ud" says echo.log '^cw-echo: '
await "sink over verbs-ud" says sink.log '^cw-echo: '
# Each client has an address of its own: one who comes back with another queue pair is believed after two seconds only (ARP's guard).
over="cw-pingpong --net=verbs-ud --cores pu:1 --device rxe0"
run 30 $over --address 10.77.0.11/24 --connect 10.77.0.2:7 --count 300 --json --statistics
run 30 $over --address 10.77.0.12/24 --connect 10.77.0.2:7 --udp --size 900 --count 300 --json
run 30 $over --address 10.77.0.13/24 --connect 10.77.0.2:7 --connections 16 --pipeline 4 --size 3000 --count 1000 --json
run 30 $over --address 10.77.0.14/24 --connect 10.77.0.3:9 --bulk --size 968 --duration 1 --json --statistics
/usr/bin/ip link set v0 mtu 4200 && /usr/bin/ip link set v1 mtu 4200 # IPv6 needs 1,280 bytes
cw-echo --net=verbs-ud --device rxe1 --address 2001:db8::2/64 >echo6.log 2>&1 &
echo6=$!
await "echo server over IPv6" says echo6.log '^cw-echo: '
run 30 cw-pingpong --net=verbs-ud --cores pu:1 --device rxe0 --address 2001:db8::1/64 --connect [2001:db8::2]:7 --size 1500 --count 300 --json
for each in $echo $sink $echo6; do kill -TERM $each; wait $each || { status=1; echo "vm: cw-echo ended with $?"; }; done
kill -0 $server || { status=1; echo "vm: the server has gone"; }
kill -9 $server
cat ./*.log
echo "vm: over after $(elapsed) s"
exit $status
END
bin=$COREWIRE_BINARY_DIR/bin
"$COREWIRE_SOURCE_DIR/tests/vm/run" --timeout 300 --add "$bin/test_vm_guest" --add "$bin/test_rdma_verbs" --add "$bin/cw-rdma-pingpong" \
    --add "$bin/cw-rdma-perf" --add "$bin/cw-echo" --add "$bin/cw-pingpong" "$script"
