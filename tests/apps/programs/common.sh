# Sourced by the tests of the programs: where they are, and how to say what failed.
bin=$COREWIRE_BINARY_DIR/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    [[ ! -s $work/err ]] || sed 's/^/  stderr: /' "$work/err" >&2
    [[ ! -s $work/out ]] || sed 's/^/  stdout: /' "$work/out" >&2
    exit 1
}

# run COMMAND...: its exit status in $status, its output in $work/out and $work/err.
run() {
    status=0
    timeout 60 "$@" >"$work/out" 2>"$work/err" || status=$?
}

# refuses WHAT COMMAND...: exit status 2, and one line on stderr, which matches the pattern WHAT.
refuses() {
    local pattern=$1
    shift
    run "$@"
    [[ $status == 2 ]] || fail "$* exited with $status, not 2"
    [[ $(wc -l <"$work/err") == 1 ]] || fail "$*: not one line on stderr"
    grep -Eq -- "$pattern" "$work/err" || fail "$*: its line does not match '$pattern'"
    [[ ! -s $work/out ]] || fail "$* printed something on stdout"
}

# What this host has of ours: devices, XDP programs, namespaces.
traces() {
    ip -o link show | grep -E 'cw|xdp' || true
    ip netns list 2>/dev/null || true
}
