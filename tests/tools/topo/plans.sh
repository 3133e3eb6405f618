#!/bin/bash
# What cw-topo says of machines that are not here, against golden/: plans that a person who knows the hardware would agree with.
# To write them anew after a change that is meant (and to look at the difference with git diff):
#     COREWIRE_BLESS=1 COREWIRE_SOURCE_DIR=$PWD COREWIRE_BINARY_DIR=build/release tests/tools/topo/plans.sh
# ctest: timeout=240
set -euo pipefail
here=$COREWIRE_SOURCE_DIR/tests/tools/topo
topo=$COREWIRE_BINARY_DIR/bin/cw-topo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/machines/make_machines.py" "$work"
different=0

# The same machines as hwloc writes them, which is what lstopo does, too.
mkdir "$work/written"
for machine in "$work"/*.xml; do
    "$topo" --machine "$machine" --xml "$work/written/${machine##*/}"
done
for name in two-sockets eight-nodes; do
    grep -q '<distances2 .*NUMALatency' "$work/written/$name.xml" || { echo "FAILED: hwloc has not read the distances of $name"; exit 1; }
done

# same NAME MACHINE OPTIONS...: the output is golden/NAME, for the machine as it is here and as hwloc writes it.
same() {
    local golden=$here/golden/$1 machine=$work/$2.xml written=$work/written/$2.xml
    shift 2
    if ! "$topo" "$@" --machine "$machine" >"$work/out" 2>&1; then
        echo "FAILED: cw-topo $*: $(cat "$work/out")"
        exit 1
    fi
    if [[ -n ${COREWIRE_BLESS:-} ]]; then
        cp "$work/out" "$golden"
    elif ! diff -u "$golden" "$work/out"; then
        different=$((different + 1))
    fi
    if ! "$topo" "$@" --machine "$written" >"$work/again" 2>&1 || ! diff -u "$work/out" "$work/again"; then
        echo "FAILED: cw-topo $* of this machine as hwloc writes it"
        exit 1
    fi
    # Every plan fits the machine that it is for.
    if [[ ${1:-} == plan ]] && ! "$topo" check "$work/out" --machine "$machine" >"$work/check"; then
        cat "$work/check"
        echo "FAILED: the plan does not fit its own machine"
        exit 1
    fi
}

same two-sockets.txt two-sockets
same two-sockets.plan two-sockets plan --nic eth1
same two-sockets-none-named.plan two-sockets plan --shards 4
same two-sockets-40-shards.plan two-sockets plan --nic mlx5_0 --shards 40
same two-sockets-every-thread.plan two-sockets plan --nic eth1 --smt all --shards 36
same two-sockets-every-thread-63-queues.plan two-sockets plan --nic eth1 --smt all
same two-sockets-first-socket.plan two-sockets plan --nic eth0 --shards 8
same two-sockets-isolated.plan two-sockets-isolated plan --nic eth1
same two-sockets-nohz.plan two-sockets-nohz plan --nic eth1
same two-sockets-nohz-12-shards.plan two-sockets-nohz plan --nic eth1 --shards 12
same two-sockets-nohz-far.plan two-sockets-nohz-far plan --nic eth1
same eight-nodes.txt eight-nodes
same eight-nodes.plan eight-nodes plan
same eight-nodes-8-shards.plan eight-nodes plan --shards 8
same eight-nodes-no-nic.plan eight-nodes plan --nic none --shards 12
same eight-nodes-20-shards.plan eight-nodes plan --shards 20
same hybrid.txt hybrid
same hybrid.plan hybrid plan --nic none
same hybrid-4-queues.plan hybrid plan
same hybrid-8-shards.plan hybrid plan --nic none --shards 8
same hybrid-10-shards.plan hybrid plan --nic none --shards 10
same arm.txt arm
same arm.plan arm plan
same arm-leave-64.plan arm plan --leave 64
same container.txt container
same container.plan container plan
same container-every-thread.plan container plan --smt all
same container-first-four.plan container-first-four plan
same container-quota.plan container-quota plan
same container-quota-3-shards.plan container-quota plan --shards 3
same container-quota-4-shards.plan container-quota plan --shards 4
same container-quota-8-shards.plan container-quota plan --shards 8
same container-quota-of-one.plan container-quota-of-one plan
same small-vm.plan small-vm plan
same small-vm-2-shards.plan small-vm plan --shards 2
same two-small-packages.plan two-small-packages plan
((different == 0)) || { echo "FAILED: $different outputs differ from golden/"; exit 1; }
echo "every machine is described and planned for as before"
