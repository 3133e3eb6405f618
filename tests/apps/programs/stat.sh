#!/bin/bash
# cw-stat looks at processes that run, hang and have died; their pages are removed in time.
# ctest: processors=2 timeout=120
set -euo pipefail
. "$(dirname "$0")/common.sh"
service=
trap '[[ -z $service ]] || kill -KILL $service 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
if ! : 2>/dev/null >/dev/shm/corewire-test-$$; then echo "SKIPPED: /dev/shm cannot be written"; exit 0; fi
rm -f /dev/shm/corewire-test-$$

starts() {
    "$bin/cw-pingpong" --net=wire "$@" --connections 3 --duration 100 --spin-us 50 >/dev/null 2>"$work/log" &
    service=$!
    for _ in $(seq 100); do
        [[ $(connections) != 6 ]] || return 0
        sleep 0.1
    done
    fail "cw-pingpong has no page with six ends of connections"
}
# Of both shards: each publishes by its own clock.
connections() {
    "$bin/cw-stat" $service --json 2>/dev/null | python3 -c '
import json, sys
try: page = json.load(sys.stdin)
except ValueError: sys.exit()
print(len([c for s in page["shards"] for c in s["connections"] if c["state"] == "ESTABLISHED"]))' || true
}
page=

starts
page=/dev/shm/corewire-$service
[[ $(stat -c %a $page) == 600 ]] || fail "the page can be read by others"
for _ in $(seq 20); do # on a slow machine it may seem to hang for a moment
    run "$bin/cw-stat"
    ! grep -Eq "^ *$service running +cw-pingpong +wire +2 " "$work/out" || break
    sleep 0.5
done
grep -Eq "^ *$service running +cw-pingpong +wire +2 " "$work/out" || fail "not in the list"
run "$bin/cw-stat" $service
grep -Eq '^ +0 +[0-9]+% +[0-9]+' "$work/out" || fail "no line of shard 0"
grep -q 'connections: ESTABLISHED 6' "$work/out" || fail "not six ends of connections"
[[ $(grep -c ' ESTABLISHED  ' "$work/out") == 6 ]] || fail "no row of each connection"
run "$bin/cw-stat" $service --watch 0.5 --count 3
[[ $(grep -c '(pid ' "$work/out") == 3 ]] && grep -Eq ' [1-9][0-9]*/s' "$work/out" || fail "no rates"
run "$bin/cw-stat" --json
python3 -c 'import json, sys; sys.exit(int(sys.argv[2]) not in [p["pid"] for p in json.load(open(sys.argv[1]))])' "$work/out" $service ||
    fail "not in the JSON of all"
run "$bin/cw-stat" $service --json
python3 - "$work/out" <<'END' || fail "the JSON is not as expected"
import json, sys
page = json.load(open(sys.argv[1]))
assert page["state"] in ("running", "hung") and len(page["shards"]) == 2
values = {s["name"]: s for s in page["shards"][0]["series"]}
assert values["corewire_tcp_segments_sent_total"]["value"] > 100
assert 0 <= values["corewire_reactor_load_ratio"]["value"] <= 1
c = page["shards"][0]["connections"][0]
assert c["cwnd"] > 0 and c["rtt_ns"] >= 0 and c["state"] == "ESTABLISHED"
END

run "$bin/cw-stat" $service --log-level tcp=debug,warn
grep -q "^cw-stat: process $service: levels are now tcp=debug,warn$" "$work/out" || fail "the levels of the log were not changed"
refuses "process $service: 'loudly' is none of" "$bin/cw-stat" $service --log-level loudly
for _ in $(seq 100); do
    ! grep -q "warning - log: asked for other levels: 'loudly' is none of" "$work/log" || break
    sleep 0.1
done
grep -q "warning - log: asked for other levels: 'loudly' is none of" "$work/log" || fail "the log does not tell who is refused"
refuses '--log-level needs the PID' "$bin/cw-stat" --log-level debug
refuses '--count goes with --watch' "$bin/cw-stat" --count 3
refuses '--collect goes with neither' "$bin/cw-stat" --collect $service
refuses '--log-level goes with neither' "$bin/cw-stat" $service --watch 1 --log-level debug
refuses '/nowhere: No such file' "$bin/cw-stat" --folder /nowhere
refuses '/nowhere: No such file' "$bin/cw-stat" --folder /nowhere --collect
status=0
"$bin/cw-stat" --json >/dev/full 2>"$work/err" || status=$?
[[ $status == 1 ]] && grep -q 'standard output cannot be written: No space left' "$work/err" || fail "a list that was not written is a success"

kill -STOP $service
for _ in $(seq 100); do
    run "$bin/cw-stat"
    ! grep -Eq "^ *$service hung " "$work/out" || break
    sleep 0.1
done
grep -Eq "^ *$service hung " "$work/out" || fail "a stopped process does not count as hung"
run "$bin/cw-stat" $service
grep -q 'connections: ESTABLISHED 6' "$work/out" || fail "a hung process cannot be looked at"

kill -KILL $service
wait $service 2>/dev/null || true
run "$bin/cw-stat" $service
grep -q ', dead$' "$work/out" && grep -q 'connections: ESTABLISHED 6' "$work/out" || fail "a dead process cannot be looked at"
refuses "process $service: it has ended" "$bin/cw-stat" $service --log-level debug
run "$bin/cw-stat" --collect
[[ ! -e $page ]] || fail "the page of a dead process is still there"
refuses "no Corewire process $service" "$bin/cw-stat" $service
service=

starts --ipv6
page=/dev/shm/corewire-$service
run "$bin/cw-stat" $service
[[ $(grep -Ec ' \[fd00:63::[12]\]:[0-9]+ +\[fd00:63::[12]\]:[0-9]+ ESTABLISHED ' "$work/out") == 6 ]] || fail "no addresses of IPv6"
run "$bin/cw-stat" $service --json
grep -Eq '"local":"\[fd00:63::[12]\]:[0-9]+"' "$work/out" && grep -Eq '"remote":"\[fd00:63::[12]\]:[0-9]+"' "$work/out" ||
    fail "no addresses of IPv6 in the JSON"
kill -TERM $service
wait $service || fail "cw-pingpong did not end in order"
service=
[[ ! -e $page ]] || fail "a process that ended in order left its page"

starts --warmup 90
kill -TERM $service
status=0
wait $service || status=$?
service=
[[ $status == 1 ]] && grep -q 'nothing was measured' "$work/log" || fail "a run without a round trip that counts ended with $status"

mkdir "$work/pages"
head -c 100000 /dev/urandom >"$work/pages/corewire-1"
run "$bin/cw-stat" --folder "$work/pages"
[[ $status == 0 ]] && grep -q 'is no page' "$work/err" || fail "rubbish is not told"
run "$bin/cw-stat" --folder "$work/pages" --json
[[ $status == 0 && $(cat "$work/out") == "[]" ]] || fail "the JSON of no process"
refuses 'is no page' "$bin/cw-stat" 1 --folder "$work/pages"
