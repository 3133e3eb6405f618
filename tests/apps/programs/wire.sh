#!/bin/bash
# cw-pingpong with both ends in this process: the JSON object, no errors, every protocol, one core and two.
# ctest: processors=2 timeout=180
set -euo pipefail
. "$(dirname "$0")/common.sh"

# plays OPTIONS...: a run without errors whose JSON has the documented shape.
plays() {
    run "$bin/cw-pingpong" --net=wire --json "$@"
    [[ $status == 0 ]] || fail "cw-pingpong $* exited with $status"
    python3 - "$work/out" "$*" <<'PYTHON' || fail "cw-pingpong $*: its JSON is not as documented"
import json, sys
text, arguments = open(sys.argv[1]).read(), sys.argv[2].split()
assert text.count("\n") == 1, "one line"
run = json.loads(text)
expected = ["net", "protocol", "size", "connections", "pipeline", "round_trips", "seconds", "rate", "errors", "rtt_ns"]
assert list(run)[:10] == expected, list(run)
assert run["net"] == "wire" and run["errors"] == 0, run
protocol = next((p for p in ("udp", "raw") if f"--{p}" in arguments), "tcp")
assert run["protocol"] == protocol, run
for option in ("size", "connections", "pipeline"):
    if f"--{option}" in arguments:
        assert run[option] == int(arguments[arguments.index(f"--{option}") + 1]), run
if "--count" in arguments:
    assert run["round_trips"] == int(arguments[arguments.index("--count") + 1]), run
assert run["round_trips"] > 0 and run["seconds"] > 0 and run["rate"] > 0, run
if "--bulk" in arguments:
    assert run["rtt_ns"] is None and run["gbit_per_s"] > 0 and run["bytes"] == run["round_trips"] * run["size"], run
else:
    assert list(run["rtt_ns"]) == ["min", "p50", "p90", "p99", "p999", "max"], run
    quantiles = list(run["rtt_ns"].values())
    assert quantiles == sorted(quantiles) and quantiles[0] > 0, run
    assert len(run) == 10, run
PYTHON
}

plays --duration 1
plays --udp --duration 0.3
plays --raw --duration 0.3
plays --count 1000 --connections 4 --faults drop=1/50,corrupt=1/100,duplicate=1/100,reorder=0.02,seed=3
for how in cubic newreno dctcp bbr; do plays --count 500 --congestion $how --ecn; done
for cores in "" --same-core; do
    plays $cores --count 5000
    plays $cores --count 1 --size 1
    plays $cores --count 1000 --size 1461
    plays $cores --count 200 --size 65536
    plays $cores --count 3001 --connections 16 --pipeline 8
    plays $cores --udp --count 3000 --connections 4 --pipeline 4
    plays $cores --raw --count 3000 --pipeline 16
    plays $cores --bulk --count 20000 --size 1460
    plays $cores --bulk --count 20000 --size 1460 --drop-every 1000
    plays $cores --count 1000 --drop-every 100
    plays $cores --short --count 2000 --connections 8
    plays $cores --raw --bulk --count 20000 --size 1500
done
plays --short --count 500 --connections 4 --faults drop=1/50,seed=3

plays --bulk --count 5000 --size 8948 --mtu 9000

# Clients that give up, some of whose resets get lost: errors, and an end. Now and then all is lost that asks for the server's address.
for seed in 1 2 4; do
    for how in "" --same-core; do
        run "$bin/cw-pingpong" --net=wire --json $how --count 3000 --connections 4 --patience 0.05 --faults drop=1/8,seed=$seed
        [[ $status == 1 ]] || fail "$how: with little patience and an eighth of all frames lost: exit status $status"
        grep -q 'no reply in time\|No route to host' "$work/err" || fail "$how: with little patience and an eighth of all frames lost nobody gave up"
    done
done

run "$bin/cw-pingpong" --duration 0.2
[[ $status == 0 ]] || fail "the table: exit status $status"
for line in 'tcp over wire' 'round trips' rate errors min p50 p90 p99 p999 max; do
    grep -q "$line" "$work/out" || fail "the table lacks '$line'"
done
status=0
"$bin/cw-pingpong" --net=wire --count 100 --json >/dev/full 2>"$work/err" || status=$?
[[ $status == 1 ]] && grep -q 'standard output cannot be written' "$work/err" || fail "figures that were not written are a success"
echo "every run came back whole"
