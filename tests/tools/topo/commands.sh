#!/bin/bash
# cw-topo's command line: this machine, drawings, JSON, check, a plan that an app starts from, hostile files; every refusal is one line.
# ctest: timeout=120 processors=2
set -euo pipefail
. "$COREWIRE_SOURCE_DIR/tests/apps/programs/common.sh"
topo=$bin/cw-topo
python3 "$COREWIRE_SOURCE_DIR/tests/tools/topo/machines/make_machines.py" "$work"

runs() {
    run "$topo" "$@"
    [[ $status == 0 ]] || fail "cw-topo $* exited with $status"
}

runs
grep -q 'NUMA node 0' "$work/out" || fail "this machine has no NUMA node"
runs --json
python3 - "$work/out" <<'END' || fail "--json"
import json, os, sys
machine = json.load(open(sys.argv[1]))
assert {c["cpu"] for c in machine["cpus"] if c["allowed"]} == os.sched_getaffinity(0), machine["cpus"]
END
runs --json --machine "$work/two-sockets.xml"
python3 - "$work/out" <<'END' || fail "--json of another machine"
import json, sys
machine = json.load(open(sys.argv[1]))
eth1 = next(d for d in machine["devices"] if d["name"] == "eth1")
assert eth1["near_numa_nodes"] == [1] and eth1["queues"] == 63 and eth1["pci"] == "0000:98:00.0", eth1
assert len(machine["cpus"]) == 128 and machine["cpus"][1]["cpu"] == 64 and machine["cpus"][1]["thread"] == 1
assert machine["cpus"][0]["caches"]["L3Cache"]["bytes"] == 48 << 20
END

# What --xml writes is the same machine.
runs --xml "$work/again.xml" --machine "$work/two-sockets-isolated.xml"
runs plan --nic eth1 --machine "$work/two-sockets-isolated.xml"
cp "$work/out" "$work/plan"
runs plan --nic eth1 --machine "$work/again.xml"
cmp -s "$work/out" "$work/plan" || fail "the machine that --xml wrote gets another plan"

# Drawings are XML, and show every shard once in the machine and once below it.
runs --svg "$work/m.svg" --placement "$work/plan" --machine "$work/two-sockets-isolated.xml"
python3 - "$work/m.svg" <<'END' || fail "--svg"
import sys, xml.dom.minidom
texts = [t.firstChild.data for t in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("text")]
assert [t for t in texts if t in [f"s{n}" for n in range(7)]] == [f"s{n}" for n in range(7)], texts
assert sum(t.startswith("core ") for t in texts) == 64
assert "s3: CPU 37, memory 1, queue 3" in texts
END
runs plan --machine "$work/hybrid.xml" --svg "$work/h.svg"
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/h.svg" || fail "plan --svg"

# Nothing in a drawing lies across or on something else: of every machine, bare and with a plan.
for machine in "$work"/*.xml; do
    runs --machine "$machine" --svg "${machine%.xml}-bare.svg"
    runs plan --machine "$machine" --svg "${machine%.xml}-plan.svg"
done
python3 "$COREWIRE_SOURCE_DIR/tests/tools/topo/check_drawing.py" "$work"/*.svg >"$work/out" || fail "drawings: $(cat "$work/out")"

# check: what fits, what does not and what to do.
runs check "$work/plan" --machine "$work/two-sockets-isolated.xml"
grep -q 'fits this machine: 8 shards' "$work/out" || fail "check"
run "$topo" check "$work/plan" --machine "$work/hybrid.xml"
[[ $status == 1 ]] && grep -q 'does not fit: shard 0: CPU 34 does not exist.*cw-topo plan' "$work/out" || fail "check elsewhere"
grep -q 'does not fit: there is no interface eth1 here' "$work/out" || fail "check does not miss the interface"
run "$topo" check "$work/plan" --machine "$work/container.xml"
[[ $status == 1 ]] && grep -q 'CPU 34 is not allowed to this process.*allows 10-11,58-59' "$work/out" || fail "check in a container"
for shards in 3 4 5; do
    runs plan --shards "$shards" --machine "$work/container-quota.xml"
    cp "$work/out" "$work/quota"
    runs check "$work/quota" --machine "$work/container-quota.xml"
    case $shards in
    3) ! grep -q "CPUs' time" "$work/out" ;;
    4) grep -q "remark: 4 shards poll all of the 4.0 CPUs' time .*none is left for helper threads" "$work/out" ;;
    5) grep -q "remark: 5 shards, but the cgroup may use 4.0 CPUs' time" "$work/out" ;;
    esac || fail "check of $shards shards on a quota of 4"
done
printf 'interface = "eth0"\nshard = "pu:30,numa:0,queue:8"\n' >"$work/far"
run "$topo" check "$work/far" --machine "$work/two-sockets.xml"
[[ $status == 1 ]] && grep -q 'eth0 has queues 0-7, not 8: `ethtool -L eth0 combined 9`' "$work/out" || fail "check of a queue"
printf 'interface = "eth0"\nshard = "pu:40,numa:1,queue:0"\n' >"$work/far"
runs check "$work/far" --machine "$work/two-sockets.xml"
grep -q 'remark: shard 0 is not next to eth0, which is on NUMA node 0: CPUs 0-31,64-95 are' "$work/out" || fail "check of the distance"

# A plan for this machine starts an app.
runs plan --nic none --shards 1
cp "$work/out" "$work/here"
runs check "$work/here"
timeout 20 "$bin/cw-pingpong" --net=wire --placement "$work/here" --count 10 >"$work/out" 2>"$work/err" || fail "cw-pingpong --placement"

# A machine of somebody's own words: one core of 16 is the kernel's, the second threads stay idle, and the plan fits it.
runs plan --synthetic "package:2 core:8 pu:2"
cp "$work/out" "$work/synthetic"
[[ $(grep -c '^shard = ' "$work/synthetic") == 15 ]] || fail "plan --synthetic"
grep -q '^# No NIC is known here' "$work/synthetic" || fail "plan --synthetic does not say that there is no NIC"
grep -q '"pu:2,numa:0" .*core 1 of package 0; CPU 3 beside it stays idle' "$work/synthetic" || fail "reasons of a synthetic plan"
runs check "$work/synthetic" --synthetic "package:2 core:8 pu:2"

refuses 'does not exist|cannot be opened' "$topo" --machine /nonexistent.xml
refuses '--machine and --synthetic' "$topo" --machine "$work/arm.xml" --synthetic "pu:2"
refuses 'synthetic topology' "$topo" --synthetic 'castle:2'
refuses '8192 PUs at most' "$topo" --synthetic 'package:4000000000 pu:2'
refuses 'at least one shard' "$topo" plan --shards 0
refuses '--shards 65: 64 cores can be used: ask for 64 at most, or add --smt all' \
    "$topo" plan --shards 65 --nic none --machine "$work/two-sockets.xml"
refuses '--shards 2000: a placement has 1024' "$topo" plan --shards 2000
refuses '--leave 80: this process may use 80 cores' "$topo" plan --leave 80 --machine "$work/arm.xml"
refuses 'choose one of eth0, eth1' "$topo" plan --nic eth9 --machine "$work/two-sockets.xml"
refuses '--smt' "$topo" plan --smt both
refuses 'add --svg' "$topo" --placement "$work/plan"
refuses 'cannot be written' "$topo" --svg /nonexistent/x.svg
refuses 'cannot be opened: write one with' "$topo" check /nonexistent
refuses 'is not a placement: line 1' "$topo" check /bin/true
refuses 'cw-topo: .*--frobnicate' "$topo" --frobnicate
refuses 'the placement names no interface' "$topo" advise "$work/here"
refuses 'advise what' "$topo" advise
refuses '--apply and --restore' "$topo" advise --apply --restore
refuses 'nothing to restore' "$topo" advise --restore --state "$work/no-state"
refuses 'does not exist' "$topo" advise <(echo 'shard = "pu:4095"')
for command in "" plan check advise; do
    # shellcheck disable=SC2086 # no word, or one
    runs $command --help
    grep -Eq -- '--machine|--restore' "$work/out" || fail "cw-topo $command --help"
done
echo "cw-topo does what it says"
