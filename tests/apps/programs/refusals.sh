#!/bin/bash
# A wrong option, address, interface, or a missing privilege: one clear line, exit status 2, nothing left behind.
# It compares what there is of interfaces and namespaces, which the tests that make some would change.
# ctest: timeout=120 resource_lock=network_namespaces
set -euo pipefail
. "$(dirname "$0")/common.sh"
before=$(traces)

for program in cw-echo cw-pingpong; do
    connect=()
    [[ $program == cw-echo ]] || connect=(--connect 198.51.100.2:7)
    refuses "$program: .*--frobnicate" "$bin/$program" --frobnicate
    refuses "$program: .*--net" "$bin/$program" --net=carrier-pigeon
    refuses "$program: --cores.*999" "$bin/$program" --net=kernel "${connect[@]}" --cores=999-1000
    refuses "$program: .*--address.*198.51.100.300" "$bin/$program" --net=tap "${connect[@]}" --address 198.51.100.300/24
    refuses "$program: .*--address" "$bin/$program" --net=tap "${connect[@]}" --address 198.51.100.2
    refuses "$program: .*--interface" "$bin/$program" --net=xdp "${connect[@]}" --address 198.51.100.2/24
    refuses "$program: .*cw-none0" "$bin/$program" --net=xdp "${connect[@]}" --address 198.51.100.2/24 --interface cw-none0
    run "$bin/$program" --help
    [[ $status == 0 ]] || fail "$program --help exited with $status"
    for option in --net --interface --address --gateway --cores; do
        grep -q -- "$option" "$work/out" || fail "$program --help does not list $option"
    done
done

refuses '--port' "$bin/cw-echo" --net=kernel --port 70000
refuses '--raw' "$bin/cw-echo" --net=kernel --raw
refuses 'cw-pingpong' "$bin/cw-echo" --net=wire
refuses '--connect' "$bin/cw-pingpong" --net=kernel
refuses '--connect' "$bin/cw-pingpong" --net=kernel --connect nowhere
refuses '--connect' "$bin/cw-pingpong" --net=wire --connect 127.0.0.1:7
refuses '--size' "$bin/cw-pingpong" --net=wire --udp --size 2
refuses '--size' "$bin/cw-pingpong" --net=wire --size 65536 --pipeline 4096
refuses '--bulk' "$bin/cw-pingpong" --net=wire --udp --bulk
refuses '--bulk|--short' "$bin/cw-pingpong" --net=wire --short --bulk
refuses '--short' "$bin/cw-pingpong" --net=wire --short --udp
refuses '--fast-open' "$bin/cw-pingpong" --net=wire --fast-open --udp
refuses '--mtu' "$bin/cw-pingpong" --net=wire --mtu 575
refuses '--duration|--count' "$bin/cw-pingpong" --net=wire --count 5 --duration 1
refuses '--same-core' "$bin/cw-pingpong" --net=kernel --connect 127.0.0.1:7 --same-core

for program in cw-rdma-perf cw-rdma-pingpong; do
    refuses "$program: .*--frobnicate" "$bin/$program" --frobnicate
    refuses "$program: .*--address.*--connect" "$bin/$program"
    refuses "$program: .*--address.*--connect" "$bin/$program" --address 127.0.0.1 --connect 127.0.0.1:7
    refuses "$program: .*198.51.100.300" "$bin/$program" --address 198.51.100.300
    refuses "$program: .*--size" "$bin/$program" --connect 127.0.0.1:7 --size 99999999
    run "$bin/$program" --help
    [[ $status == 0 ]] || fail "$program --help exited with $status"
done
refuses '--operation' "$bin/cw-rdma-perf" --connect 127.0.0.1:7 --operation add
refuses '--protocol' "$bin/cw-rdma-pingpong" --connect 127.0.0.1:7 --protocol uc
refuses '--from' "$bin/cw-rdma-pingpong" --connect 127.0.0.1:7 --protocol ud

if [[ $(id -u) == 0 ]]; then # as a user who may not make devices
    nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
    chmod 755 "$work"
    cp "$bin/cw-echo" "$work/"
    refuses 'root|CAP_NET_ADMIN|permission' "${nobody[@]}" "$work/cw-echo" --net=tap --address 198.51.100.2/24
    refuses 'root|CAP_|permission' "${nobody[@]}" "$work/cw-echo" --net=xdp --interface lo --address 198.51.100.2/24
fi

after=$(traces)
[[ $before == "$after" ]] || fail "left behind: $(diff <(echo "$before") <(echo "$after") || true)"
echo "every refusal is one line and exit status 2"
