"""talk.py PROGRAM...: runs the echo server, gets bytes back from port 7777, and stops it with SIGINT."""
import signal
import socket
import subprocess
import sys
import time

PORT = 7777
server = subprocess.Popen(sys.argv[1:])
try:
    give_up = time.monotonic() + 60
    while True:
        try:
            peer = socket.create_connection(("127.0.0.1", PORT), timeout=20)
            break
        except ConnectionRefusedError:
            assert server.poll() is None, f"the server ended with status {server.returncode}"
            assert time.monotonic() < give_up, "the server does not listen"
            time.sleep(0.05)
    peer.sendall(b"there and back")
    answer = b""
    while len(answer) < len(b"there and back"):
        answer += peer.recv(100) or sys.exit("the server closed the connection")
    assert answer == b"there and back", answer
    peer.close()
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=60) == 0, f"exit status {server.returncode} after SIGINT"
    print("the echo server of the README: ok")
finally:
    server.kill()
