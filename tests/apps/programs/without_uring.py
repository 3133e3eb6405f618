"""Runs a command that gets EPERM (or what the first argument says) from io_uring_setup(2), as a container's seccomp profile does."""
import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
IO_URING_SETUP, RET_ALLOW, RET_ERRNO = 425, 0x7FFF0000, 0x00050000
LOAD_WORD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06


def forbid(error):
    filters = b"".join(struct.pack("HBBI", *each) for each in (
        (LOAD_WORD, 0, 0, 0),  # seccomp_data.nr
        (JUMP_EQUAL, 0, 1, IO_URING_SETUP),
        (RETURN, 0, 0, RET_ERRNO | error),
        (RETURN, 0, 0, RET_ALLOW)))
    program = ctypes.create_string_buffer(filters)
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("HxxxxxxQ", 4, ctypes.addressof(program))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    forbid(getattr(errno, sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
