#!/bin/bash
# tests/vm/run: its machines share one deadline, and none is started behind it. QEMU, its bound and the kernel are stand-ins.
# ctest: only=release
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/bin" "$scratch/cache/linux-image-0"
touch "$scratch"/cache/linux-image-0/{vmlinuz,modules.cpio.zst}
cat >"$scratch/bin/apt-cache" <<'END'
#!/bin/sh
echo " Depends: linux-image-0"
END
cat >"$scratch/bin/timeout" <<END
#!/bin/sh
echo "\$2" >>"$scratch/bounds" # seconds, of a machine that says nothing
sleep 2
exit 124
END
touch "$scratch/bin/qemu-system-x86_64"
chmod +x "$scratch"/bin/*
echo true >"$scratch/script"
attempts() { # SECONDS: what they had, in $bounds
    local got=0
    rm -f "$scratch/bounds" && touch "$scratch/bounds"
    PATH=$scratch/bin:$PATH COREWIRE_VM_CACHE=$scratch/cache "$COREWIRE_SOURCE_DIR/tests/vm/run" --timeout "$1" "$scratch/script" \
        >"$scratch/said" 2>&1 || got=$?
    [[ $got != 77 ]] || { cat "$scratch/said"; exit 77; }
    [[ $got == 124 ]] || { echo "status $got, not 124: $(cat "$scratch/said")"; exit 1; }
    mapfile -t bounds <"$scratch/bounds"
}
attempts 340
echo "the machines had ${bounds[*]} s"
((${#bounds[@]} == 3 && bounds[0] <= 340 && bounds[1] <= bounds[0] - 2 && bounds[2] <= bounds[1] - 2))
attempts 2
echo "the machines had ${bounds[*]-} s"
((${#bounds[@]} <= 1))
attempts 0
((${#bounds[@]} == 0))
