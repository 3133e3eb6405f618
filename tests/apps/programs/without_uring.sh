#!/bin/bash
# ctest: timeout=300 processors=2 resource_lock=network_namespaces
# io_uring is forbidden, by a container's seccomp profile or by the kernel's owner: everything works all the same, and one line says what
# stands in for it. Only what asks for io_uring by name is refused.
set -euo pipefail
# As root in a network of its own, with names of namespaces that nobody else sees: no interface of this machine is touched, and everything is
# gone with the test, however that ends.
if [[ $(id -u) == 0 && -z ${COREWIRE_OWN_NETWORK-} ]]; then
    unshare --net --mount true || { echo "SKIPPED: network namespaces cannot be made here"; exit 0; }
    COREWIRE_OWN_NETWORK=1 exec unshare --net --mount "$0"
fi
if [[ $(id -u) == 0 ]]; then
    mkdir -p /run/netns
    mount -t tmpfs names /run/netns
    ip link set lo up
fi
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
forbidden=(python3 -B "$here/without_uring.py" EPERM)
hidden=(python3 -B "$here/without_uring.py" ENOSYS)
port=$((20000 + RANDOM % 10000))
server=
namespace=cwwu
trap '[[ -z $server ]] || kill -KILL $server 2>/dev/null || true; rm -rf "$work"' EXIT
before=$(traces)
if ! run "${forbidden[@]}" true || [[ $status != 0 ]]; then
    echo "SKIPPED: seccomp filters cannot be set here: $(cat "$work/err")"
    exit 0
fi

# within SECONDS WHAT COMMAND...: until the command succeeds.
within() {
    local tries=$(($1 * 10)) what=$2
    shift 2
    for _ in $(seq $tries); do
        "$@" && return 0
        kill -0 $server 2>/dev/null || break
        sleep 0.1
    done
    fail "not in time: $what: $(cat "$work/server.err")"
}

# serves COMMAND...: in the background, without io_uring.
serves() {
    : >"$work/server" # not what the last one said
    "${forbidden[@]}" "$@" >"$work/server" 2>"$work/server.err" &
    server=$!
}

# ends: SIGTERM ends it in order, and it has said once what it did without.
ends() {
    kill -TERM $server
    status=0
    wait $server || status=$?
    server=
    [[ $status == 0 ]] || fail "after SIGTERM: exit status $status: $(cat "$work/server.err")"
    [[ $(grep -c "the kernel's sockets through epoll: $advice" "$work/server.err") == 1 ]] || fail "not said once: $(cat "$work/server.err")"
}

# plays OPTIONS...: a client without io_uring, too.
plays() {
    run "${forbidden[@]}" "$bin/cw-pingpong" --net=kernel --connect 127.0.0.1:$port --json "$@"
    [[ $status == 0 ]] && grep -q '"errors":0' "$work/out" || fail "cw-pingpong $* exited with $status"
}
ready() { [[ -s $work/server ]]; }

advice='io_uring is forbidden here: set sysctl kernel.io_uring_disabled=0, or allow it in the container.s seccomp'
refuses "cw-echo: --sqpoll needs io_uring: .*$advice" "${forbidden[@]}" "$bin/cw-echo" --net=kernel --port $port --sqpoll
refuses 'cw-echo: --sqpoll needs io_uring: .*io_uring_setup' "${hidden[@]}" "$bin/cw-echo" --net=kernel --port $port --sqpoll

# Our own stack, and its metrics for Prometheus.
run "${forbidden[@]}" "$bin/cw-pingpong" --net=wire --count 100 --json
[[ $status == 0 ]] && grep -q '"errors":0' "$work/out" || fail "without io_uring --net=wire exited with $status"
if command -v curl >/dev/null; then
    serves "$bin/cw-pingpong" --net=wire --connections 3 --duration 100 --metrics-port $port --spin-us 50
    scraped() { curl -sf -m 5 "http://127.0.0.1:$port/metrics" >"$work/page"; }
    within 30 "the endpoint answers" scraped
    for _ in $(seq 20); do scraped || fail "it answers no more"; done
    grep -Eq '^corewire_scrapes_total\{shard="0"\} 2[0-9]$' "$work/page" || fail "scrapes: $(grep scrapes_total "$work/page")"
    if command -v promtool >/dev/null; then
        promtool check metrics <"$work/page" >"$work/promtool" 2>&1 || fail "promtool: $(cat "$work/promtool")"
    fi
    ends
fi

# The kernel's sockets.
for how in forbidden hidden; do
    declare -n prefix=$how
    run "${prefix[@]}" "$bin/cw-pingpong" --net=kernel --connect 127.0.0.1:$port --count 1
    [[ $status != 0 ]] && grep -q refused "$work/err" || fail "nobody listens there: exit status $status"
done
serves "$bin/cw-echo" --cores=1 --stall-ms=0 --port $port # --net=auto
within 30 "cw-echo listens" ready
grep -q 'auto chose kernel' "$work/server.err" || fail "not the kernel's sockets: $(cat "$work/server.err")"
plays --count 500
plays --count 2000 --connections 8 --pipeline 4 --size 1000
plays --count 200 --connections 4 --size 65536
plays --udp --count 500 --connections 2 --pipeline 2
ends

# AF_XDP on the kernel's own address, which follows the kernel's routes; and on one of a router's choosing, which hears copies of what
# routers say.
if [[ $(id -u) == 0 ]]; then
    ip netns add $namespace
    ip link add cwwu0 type veth peer name cwwu1 netns $namespace
    ip link set cwwu0 up && ip -n $namespace link set cwwu1 up
    ip address add 10.9.7.1/24 dev cwwu0 && ip -n $namespace address add 10.9.7.2/24 dev cwwu1
    serves "$bin/cw-echo" --net=xdp --interface cwwu0 --shared --cores=1 --port $port
    within 30 "cw-echo listens" ready
    echoes() {
        [[ $(timeout 5 ip netns exec $namespace bash -c "exec 3<>/dev/tcp/10.9.7.1/$port; echo hello >&3; head -n1 <&3" 2>/dev/null) == hello ]]
    }
    within 30 "an echo over xdp" echoes
    ends
    serves "$bin/cw-echo" --net=xdp --interface cwwu0 --slaac --cores=1 --port $port
    within 30 "cw-echo listens" ready
    ends
    ip link del cwwu0 # it would outlive its namespace for a moment
    ip netns del $namespace
fi

after=$(traces)
[[ $before == "$after" ]] || fail "left behind: $(diff <(echo "$before") <(echo "$after") || true)"
echo "without io_uring all is served, and said once"
