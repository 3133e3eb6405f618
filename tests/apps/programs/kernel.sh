#!/bin/bash
# cw-echo and cw-pingpong as two processes on the kernel's sockets, over loopback: TCP, UDP, bulk, sockperf; and the end.
# ctest: processors=2 timeout=180
set -euo pipefail
. "$(dirname "$0")/common.sh"
port=$((20000 + RANDOM % 10000))
server=

# serves OPTIONS...: a server that is ready.
serves() {
    port=$((port + 1))
    # Not what the last server said: the one to come empties the file only when it runs.
    : >"$work/server"
    "$bin/cw-echo" --net=kernel --cores=1 --stall-ms=0 --log-level=file=warn,info --port $port "$@" >"$work/server" 2>"$work/server.err" &
    server=$!
    for _ in $(seq 200); do
        [[ ! -s $work/server ]] || return 0
        kill -0 $server 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/server.err" >&2
    fail "cw-echo $* did not start"
}

# ends: SIGTERM ends the server in order, with exit status 0.
ends() {
    kill -TERM $server
    status=0
    wait $server || status=$?
    [[ $status == 0 ]] || fail "after SIGTERM cw-echo exited with $status"
}

# plays OPTIONS...: a run without errors.
plays() {
    run "$bin/cw-pingpong" --net=kernel --connect 127.0.0.1:$port --json "$@"
    [[ $status == 0 ]] && grep -q '"errors":0' "$work/out" || fail "cw-pingpong $* exited with $status"
}

trap '[[ -z $server ]] || kill -KILL $server 2>/dev/null || true; rm -rf "$work"' EXIT

serves
plays --count 500
plays --count 500 --congestion newreno
plays --count 2000 --connections 8 --pipeline 4 --size 1000
plays --udp --count 500 --connections 2 --pipeline 2
run "$bin/cw-pingpong" --net=kernel --connect localhost:$port --count 10
[[ $status == 0 ]] || fail "by name: $(cat "$work/err")"
ends
run "$bin/cw-pingpong" --net=kernel --log-level=file=warn,info --stall-ms=0 --connect 127.0.0.1:$port --count 1
[[ $status == 1 || $status == 2 ]] && [[ $(wc -l <"$work/err") == 1 ]] || fail "nobody listens: exit status $status"

# cw-stat shows what the kernel's sockets have carried, and what the kernel says about each.
if : 2>/dev/null >/dev/shm/corewire-test-$$; then
    rm /dev/shm/corewire-test-$$
    serves
    exec {connection}<>/dev/tcp/127.0.0.1/$port
    echo hello >&$connection
    read -r -t 20 -u $connection answer && [[ $answer == hello ]] || fail "no echo"
    # shows PATTERN...: all of them on one page of cw-stat's. It publishes now and then: a page may have the connection before its bytes.
    shows() {
        local pattern
        run "$bin/cw-stat" $server
        for pattern in "$@"; do
            grep -Eq "$pattern" "$work/out" || { missing=$pattern; return 1; }
        done
    }
    seen='^ +0 .* 1 +1 +6 +6 +- '
    for _ in $(seq 200); do
        ! shows 'connections: ESTABLISHED 1$' '^ +shard .* reads +sends +bytes in +bytes out' "$seen" \
            "127.0.0.1:$port +127.0.0.1:[0-9]+ ESTABLISHED +[1-9]" || { missing=; break; }
        sleep 0.05
    done
    [[ -z $missing ]] || fail "cw-stat does not show '$missing'"
    exec {connection}>&-
    ends
fi

# A hundred idle connections are closed at once, although a session may take 5 s to end.
serves
for i in $(seq 100); do exec {connection}<>/dev/tcp/127.0.0.1/$port; done
began=$(date +%s%N)
ends
took=$((($(date +%s%N) - began) / 1000000))
[[ $took -lt 4000 ]] || fail "with 100 idle connections cw-echo took $took ms to end"
[[ ! -s $work/server.err ]] || fail "cw-echo said at its end: $(cat "$work/server.err")"
for fd in /proc/$$/fd/*; do fd=${fd##*/}; [[ $fd -le 9 || $fd == 255 ]] || eval "exec $fd>&-"; done

serves --discard
plays --bulk --count 5000 --size 1460
ends

if command -v sockperf >/dev/null; then
    serves --sockperf
    for transport in "" --tcp; do
        run sockperf ping-pong -i 127.0.0.1 -p $port -t 3 -m 64 $transport
        [[ $status == 0 ]] && grep -q 'percentile 50' "$work/out" || fail "sockperf ping-pong $transport: exit status $status"
    done
    ends
else
    echo "SKIPPED: sockperf is not installed"
fi
server=
echo "both programs agree with each other and with sockperf"
