#!/bin/bash
# --placement FILE, --shard and the same keys in a config file: threads run on those CPUs, memory comes from those NUMA nodes, and
# what does not fit this machine is one line and exit status 2.
# ctest: processors=2 timeout=120
set -euo pipefail
. "$(dirname "$0")/common.sh"
port=$((20000 + RANDOM % 10000)) # below those that the kernel gives to who asks for any
server=
trap '[[ -z $server ]] || kill -KILL $server 2>/dev/null || true; rm -rf "$work"' EXIT

mapfile -t cpus < <(python3 -c 'import os; print("\n".join(map(str, sorted(os.sched_getaffinity(0)))))')
if ((${#cpus[@]} < 2)); then
    echo "SKIPPED: one CPU leaves nothing to place"
    exit 0
fi
first=${cpus[0]}
last=${cpus[-1]}

# runs_on WHAT CPU... -- OPTIONS...: cw-echo with these options has a shard for each of the CPUs, in this order, its thread pinned to it
# alone. Threads are known by their names: shard 0 is the program's first, the others are called shard-N.
runs_on() {
    local what=$1 expected=()
    shift
    while [[ $1 != -- ]]; do
        expected+=("$1")
        shift
    done
    shift
    port=$((port + 1))
    # Not what the last server said: the one to come empties the file only when it runs.
    : >"$work/out"
    "$bin/cw-echo" --net=kernel --port $port "$@" >"$work/out" 2>"$work/err" &
    server=$!
    for _ in $(seq 400); do
        [[ ! -s $work/out ]] || break
        kill -0 $server 2>/dev/null || break
        sleep 0.05
    done
    [[ -s $work/out ]] || fail "$what: cw-echo $* did not start"
    local pinned=() task list name
    for task in /proc/$server/task/*; do
        list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task/status")
        [[ $list == *[-,]* ]] && continue
        name=$(<"$task/comm")
        case $name in
        shard-*) pinned[${name#shard-}]=$list ;;
        *) [[ $task == */$server ]] && pinned[0]=$list || fail "$what: thread '$name' is pinned to $list" ;;
        esac
    done
    [[ ${pinned[*]} == "${expected[*]}" ]] || fail "$what: threads run on ${pinned[*]}, not ${expected[*]}"
    [[ -z ${check_memory:-} ]] || [[ ! -r /proc/$server/numa_maps ]] ||
        grep -Eq " (prefer|bind)( [(]many[)])?(=[a-z]+)?:0" "/proc/$server/numa_maps" ||
        fail "$what: memory is not bound: $(head -1 "/proc/$server/numa_maps")"
    kill -TERM $server
    wait $server || fail "$what: exit status $?"
    server=
}

cat >"$work/two" <<END
# two shards, the other way round
interface = "no-such-nic0"        # the kernel's sockets use none
shard = "pu:$last,numa:0,queue:1"  # why: "to be = seen"
shard = "pu:$first,numa:0,queue:0"
END
check_memory=yes
runs_on "--placement" "$last" "$first" -- --placement "$work/two"
runs_on "--shard" "$last" "$first" -- --shard "pu:$last,numa:0" --shard "pu:$first,numa:0"
check_memory=
echo "placement = \"$work/two\"" >"$work/config"
runs_on "placement in a config file" "$last" "$first" -- --config "$work/config"
echo "shard = [\"pu:$last,numa:0\", \"pu:$first\"]" >"$work/config"
runs_on "shards in a config file" "$last" "$first" -- --config "$work/config"
printf 'shard = "pu:%s,numa:0"  # why\nshard = "pu:%s"\n' "$last" "$first" >"$work/config"
runs_on "the lines of a placement file in a config file" "$last" "$first" -- --config "$work/config"
echo "shard = \"pu:$first\"" >"$work/config"
runs_on "the command line wins over the config file" "$last" -- --config "$work/config" --shard "pu:$last"

echo 'shard = "pu:4095,numa:0,queue:0"' >"$work/elsewhere"
sed -i '1i interface = "eth0"' "$work/elsewhere"
refuses 'placement: shard 0: CPU 4095 does not exist.*cw-topo plan' "$bin/cw-echo" --net=kernel --placement "$work/elsewhere"
printf 'shard = "pu:%s"\nshard = "pu:%s"\n' "$first" "$first" >"$work/twice"
refuses "shards 0 and 1 are both on CPU $first" "$bin/cw-echo" --net=kernel --placement "$work/twice"
echo "shard = \"pu:$first,numa:77\"" >"$work/node"
refuses 'NUMA node 77 does not exist' "$bin/cw-echo" --net=kernel --placement "$work/node"
refuses 'none cannot be opened' "$bin/cw-echo" --net=kernel --placement "$work/none"
refuses 'is not a placement: line 1' "$bin/cw-echo" --net=kernel --placement /bin/true
refuses '--placement and --shard' "$bin/cw-echo" --net=kernel --placement "$work/two" --shard "pu:$first"
refuses '--placement and --cores' "$bin/cw-echo" --net=kernel --placement "$work/two" --cores 1
refuses '--shard: .*cores:1' "$bin/cw-echo" --net=kernel --shard cores:1
refuses '--interface says' "$bin/cw-echo" --net=xdp --address 198.51.100.2/24 --interface cw-none0 --placement "$work/two"
refuses 'no-such-nic0' "$bin/cw-echo" --net=xdp --address 198.51.100.2/24 --placement "$work/two"
echo "programs run where their placement says"
