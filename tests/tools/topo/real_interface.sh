#!/bin/bash
# cw-topo advise against an interface of the kernel's, a veth with queues in a network namespace of the test's own: what it says, does,
# takes back, and what it leaves behind where the interface cannot do what is asked.
# ctest: timeout=120 root=yes resource_lock=network_namespaces
set -euo pipefail
. "$COREWIRE_SOURCE_DIR/tests/apps/programs/common.sh"
topo=$bin/cw-topo
command -v ethtool >/dev/null || { echo "SKIPPED: there is no ethtool"; exit 0; }
space=cw-topo-$$
ip netns add "$space" 2>"$work/err" || { echo "SKIPPED: no network namespace can be made: $(cat "$work/err")"; exit 0; }
trap 'ip netns del "$space"; rm -rf "$work"' EXIT
printf '#!/bin/sh\nexec ip netns exec %s "$@"\n' "$space" >"$work/inside"
chmod +x "$work/inside"
"$work/inside" true 2>"$work/err" || { echo "SKIPPED: this place lets nobody mount /sys of a namespace: $(cat "$work/err")"; exit 0; }
"$work/inside" ip link add cw0 numrxqueues 4 numtxqueues 4 type veth peer name cw1
if ! "$work/inside" ethtool -L cw0 rx 1 tx 1 2>"$work/err"; then
    echo "SKIPPED: this kernel's veth has a fixed number of queues"
    exit 0
fi
cpu=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
queues() { "$work/inside" ls /sys/class/net/cw0/queues | grep -c "${1:-rx}"; }
# placement QUEUE...: one shard with these queues.
placement() { printf 'interface = "cw0"\nshard = "pu:%s,queue:%s"\n' "$cpu" "$(IFS=+; echo "$*")" >"$work/plan"; }
state=$work/state

# What is right already is left alone.
placement 0
run "$work/inside" "$topo" advise "$work/plan"
[[ $status == 0 ]] && grep -q 'cw0 has no interrupts of its own' "$work/out" || fail "advice on a veth"
! grep -q '^ethtool' "$work/out" || fail "advice where nothing is to be done"
run "$work/inside" "$topo" advise "$work/plan" --apply --state "$state"
[[ $status == 0 && ! -e $state && $(queues) == 1 ]] || fail "--apply where nothing is to be done"

# Queues are made, and go again.
placement 0 1 2
run "$work/inside" "$topo" advise "$work/plan"
grep -q '^ethtool -L cw0 rx 3 tx 3 ' "$work/out" || fail "advice on missing queues"
[[ $(queues) == 1 ]] || fail "advice alone has changed something"
run "$work/inside" "$topo" advise "$work/plan" --apply --state "$state"
[[ $status == 0 && -s $state && $(queues) == 3 ]] || fail "--apply does not make queues: $(queues)"
refuses 'advice is applied already|exists' "$work/inside" "$topo" advise <(sed 's/0+1+2/0+1+2+3/' "$work/plan") --apply --state "$state"
[[ $(queues) == 3 ]] || fail "a second --apply"
run "$work/inside" "$topo" advise --restore --state "$state"
[[ $status == 0 && ! -e $state && $(queues) == 1 ]] || fail "--restore"

# Sending queues of which there were more stay.
"$work/inside" ethtool -L cw0 tx 4
run "$work/inside" "$topo" advise "$work/plan" --apply --state "$state"
[[ $status == 0 && $(queues) == 3 && $(queues tx) == 4 ]] || fail "--apply takes sending queues away: $(queues tx)"
run "$work/inside" "$topo" advise --restore --state "$state"
[[ $status == 0 && $(queues) == 1 && $(queues tx) == 4 ]] || fail "--restore takes sending queues away: $(queues tx)"
"$work/inside" ethtool -L cw0 tx 1

# More queues than it can have: a sentence, and everything is as before.
placement 0 7
run "$work/inside" "$topo" advise "$work/plan" --apply --state "$state"
[[ $status == 2 && ! -e $state && $(queues) == 1 ]] || fail "--apply of what cannot be"
grep -q 'ethtool -L cw0 rx 8 tx 8.*failed.*everything is as before' "$work/err" || fail "it does not say what failed"

# A hash that the driver does not have cannot be set, nor is it tried.
"$work/inside" ethtool -L cw0 rx 4 tx 4
placement 0 1
run "$work/inside" "$topo" advise "$work/plan" --apply --state "$state"
[[ $status == 2 && ! -e $state && $(queues) == 4 ]] || fail "--apply of a hash"
grep -q 'ethtool -x cw0. failed' "$work/err" || fail "it does not say that there is no hash"

refuses 'there is no interface cw9 here' "$work/inside" "$topo" advise <(sed 's/cw0/cw9/' "$work/plan")
echo "advice on a real interface is given, followed and taken back"
