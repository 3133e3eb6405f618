#!/bin/bash
# The metrics endpoint of a running cw-pingpong, checked by promtool and scraped by a real Prometheus.
# ctest: processors=2 timeout=180
set -euo pipefail
. "$(dirname "$0")/common.sh"
for program in prometheus promtool curl; do
    command -v $program >/dev/null || { echo "SKIPPED: $program is not installed"; exit 0; }
done
metrics=$((20000 + RANDOM % 10000))
database=$((metrics + 1))
service=
prometheus=

end_all() {
    [[ -z $prometheus ]] || kill -TERM $prometheus 2>/dev/null || true
    [[ -z $service ]] || kill -KILL $service 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end_all EXIT

# within SECONDS WHAT COMMAND...: until the command succeeds.
within() {
    local tries=$(($1 * 10)) what=$2
    shift 2
    for _ in $(seq $tries); do
        "$@" && return 0
        sleep 0.1
    done
    fail "not in time: $what"
}

: >"$work/out"
"$bin/cw-pingpong" --net=wire --connections 3 --duration 100 --metrics-port $metrics --spin-us 50 >"$work/out" 2>"$work/err" &
service=$!
answers() { curl -sf -m 5 "http://127.0.0.1:$metrics/metrics" >"$work/page"; }
within 30 "the endpoint answers" answers
established() { answers && [[ $(grep -Ec '^corewire_tcp_connections\{.*state="ESTABLISHED"\} 3$' "$work/page") == 2 ]]; }
within 30 "three connections on both shards" established

promtool check metrics <"$work/page" >"$work/promtool" 2>&1 || fail "promtool: $(cat "$work/promtool")"
[[ ! -s $work/promtool ]] || fail "promtool has something to say: $(cat "$work/promtool")"
for shard in 0 1; do
    grep -Eq "^corewire_reactor_turns_total\{shard=\"$shard\"\} [1-9]" "$work/page" || fail "shard $shard does not turn"
    grep -Eq "^corewire_tcp_connections\{shard=\"$shard\",port=\"[^\"]+\",state=\"ESTABLISHED\"\} 3$" "$work/page" ||
        fail "not three connections on shard $shard: $(grep ESTABLISHED "$work/page")"
done
segments() { sed -nE 's/^corewire_tcp_segments_received_total\{shard="0".*\} ([0-9]+)$/\1/p' "$work/page"; }
before=$(segments)
moves() { answers && [[ $(segments) -gt $before ]]; }
within 30 "more segments than $before" moves

# A second process cannot have the port as well.
refuses '^cw-echo: --metrics-port: another program has 127.0.0.1:' "$bin/cw-echo" --net=kernel --port $((metrics + 2)) --metrics-port $metrics

cat >"$work/prometheus.yml" <<END
global: {scrape_interval: 500ms, scrape_timeout: 400ms}
scrape_configs:
  - job_name: corewire
    static_configs: [{targets: ["127.0.0.1:$metrics"]}]
END
promtool check config "$work/prometheus.yml" >/dev/null
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address=127.0.0.1:$database \
    --log.level=error >"$work/prometheus.log" 2>&1 &
prometheus=$!

# query EXPRESSION: the first value, empty if there is none.
query() {
    promtool query instant "http://127.0.0.1:$database" "$1" 2>/dev/null | sed -nE 's/.*=> ([0-9.e+]+) @.*/\1/p' | head -1
}
up() { [[ $(query 'up{job="corewire"}') == 1 ]]; }
within 60 "Prometheus has scraped it: $(cat "$work/prometheus.log")" up
six() { [[ $(query 'sum(corewire_tcp_connections{state="ESTABLISHED"})') == 6 ]]; }
within 30 "Prometheus knows of six ends of connections" six
moving() { [[ $(query 'rate(corewire_tcp_segments_received_total{shard="0"}[10s]) > bool 0') == 1 ]]; }
within 30 "Prometheus sees a rate of segments" moving
scraped() { [[ $(query 'corewire_scrapes_total') -ge 4 ]]; }
within 30 "the endpoint counts its scrapes" scraped
understood() { [[ -n $(query 'histogram_quantile(0.5, rate(corewire_scrape_duration_seconds_bucket[20s]))') ]]; }
within 30 "a histogram that Prometheus understands" understood

kill -TERM $service
status=0
wait $service || status=$?
service=
[[ $status == 0 ]] || fail "after SIGTERM cw-pingpong exited with $status"
down() { [[ $(query 'up{job="corewire"}') == 0 ]]; }
within 30 "Prometheus sees that it has ended" down
