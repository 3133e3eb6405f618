#!/bin/bash
# ctest: timeout=120 processors=2 resource_lock=network_namespaces
# io_uring is forbidden, by a container's seccomp profile or by the kernel's owner: what needs it says so in one line that tells
# what to do, and what does without works.
set -euo pipefail
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
forbidden=(python3 -B "$here/without_uring.py" EPERM)
hidden=(python3 -B "$here/without_uring.py" ENOSYS)
before=$(traces)
if ! run "${forbidden[@]}" true || [[ $status != 0 ]]; then
    echo "SKIPPED: seccomp filters cannot be set here: $(cat "$work/err")"
    exit 0
fi

advice='sysctl kernel.io_uring_disabled=0.*seccomp'
refuses "cw-echo: --net=kernel needs io_uring: .*$advice.*--net=xdp or --net=tap" "${forbidden[@]}" "$bin/cw-echo" --net=kernel --port 4007
refuses "cw-echo: --net=kernel needs io_uring: .*Linux 6.0 or newer.*io_uring_setup" "${hidden[@]}" "$bin/cw-echo" --net=kernel --port 4007
refuses "cw-echo: --net=auto: there is no --interface and no --address, .*$advice" "${forbidden[@]}" "$bin/cw-echo" --port 4007
refuses "cw-pingpong: --metrics-port needs io_uring: .*$advice.*cw-stat" \
    "${forbidden[@]}" "$bin/cw-pingpong" --net=wire --count 100 --metrics-port 4009
if [[ $(id -u) == 0 ]]; then
    refuses "cw-echo: --shared.* needs io_uring: .*$advice.*--address" "${forbidden[@]}" "$bin/cw-echo" --net=xdp --interface lo --shared
fi
for word in root CAP_; do
    ! grep -q "$word" "$work/err" || fail "privileges are not what is missing: $(cat "$work/err")"
done

# What our own stack does needs no io_uring.
run "${forbidden[@]}" "$bin/cw-pingpong" --net=wire --count 100 --json
[[ $status == 0 ]] && grep -q '"errors":0' "$work/out" || fail "without io_uring --net=wire exited with $status"

after=$(traces)
[[ $before == "$after" ]] || fail "left behind: $(diff <(echo "$before") <(echo "$after") || true)"
echo "whoever needs io_uring says what to do"
