#!/bin/bash
# The helpers cw-bench-* do not print a figure of what they did not do, and end when they fail.
# ctest: timeout=60 only=release
set -euo pipefail
bin=$COREWIRE_BINARY_DIR/bin
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill $server; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*; stdout: $(cat "$work/out"); stderr: $(cat "$work/err")" >&2
    exit 1
}

# ends WITH PATTERN COMMAND...: this exit status within 20 s, and stdout and stderr together have the pattern.
ends() {
    local wanted=$1 pattern=$2 status=0
    shift 2
    timeout 20 "$@" >"$work/out" 2>"$work/err" || status=$?
    [[ $status == "$wanted" ]] || fail "$* exited with $status, not $wanted"
    cat "$work/out" "$work/err" | grep -Eq -- "$pattern" || fail "$* did not say '$pattern'"
}

# A rate is told of the bytes that were copied.
echo hello >"$work/small"
for case in copy cp dd; do
    ends 2 'has 6 bytes, not the 1073741824 of --size' "$bin/cw-bench-files" $case --file "$work/small" --to "$work/to"
    ends 0 '"rate"' "$bin/cw-bench-files" $case --file "$work/small" --to "$work/to" --size 6
    [[ ! -e $work/to ]] || fail "cw-bench-files $case left its copy"
done
ends 0 '"bytes": 100001' "$bin/cw-bench-files" prepare --file "$work/odd" --size 100001
[[ $(stat -c %s "$work/odd") == 100001 ]] || fail "a prepared file has another size"
# A cp that makes less of it than there is.
mkdir "$work/bin"
printf '#!/bin/bash\nhead -c 3 "$1" >"$2"\n' >"$work/bin/cp"
chmod +x "$work/bin/cp"
ends 2 'has 3 bytes, not the 6' env PATH="$work/bin:$PATH" "$bin/cw-bench-files" cp --file "$work/small" --to "$work/to" --size 6

# Nobody can scrape where loopback is down.
if unshare -rn true 2>/dev/null; then
    ends 2 'too few scrapes' unshare -rn "$bin/cw-bench-scrape" series --duration 0.2
else
    echo "SKIPPED: no namespaces here for a scrape that fails"
fi

# Who starts a server waits for its line.
coproc serving { exec "$bin/cw-bench-epoll" serve 0; }
server=$serving_PID
read -r -t 20 line <&"${serving[0]}" || fail "cw-bench-epoll serve says nothing"
[[ $line == "cw-bench-epoll: TCP port 0" ]] || fail "cw-bench-epoll serve says '$line'"

status=0
"$bin/cw-bench-files" copy --file "$work/small" --to "$work/to" --size 6 >/dev/full 2>"$work/err" || status=$?
[[ $status == 1 ]] || fail "a figure that was not written is a success"
echo "no figure of nothing"
