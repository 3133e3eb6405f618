"""Makes a script that differs as small as it may be: fewer steps, and it still differs."""
import re

SET_UP = re.compile(r"//|(segments|mode|flags|mtu|end|sysctl tcp_ecn)\b|\S+ (socket|bind|listen|accept|connect)\(|\S+ < S")


def shrunk(lines, differs):
    """The smallest script found for which `differs(lines)` still says how (a list of lines, none where the traces are the same)."""
    lines = _cut(lines, differs)
    size = max(1, len(lines) // 4)
    while True:
        smaller = _without_some(lines, size, differs)
        if size == 1 and smaller == lines:
            return lines
        lines, size = smaller, max(1, size // 2)


def says_the_impossible(trace):
    """A peer acknowledges what it was never sent: what is left of a script may say so, when the steps before are gone."""
    sent = {}
    for event in trace:
        if event["kind"] == "packet":
            found = re.match(r"([A-Z.]+) (-?\d+):(-?\d+)", event["text"])
            if found:
                connection = event.get("connection", 0)
                sent[connection] = max(sent.get(connection, 1), int(found[3]) + ("F" in found[1]))
        elif event["kind"] == "input":
            found = re.search(r" ack (\d+)", event["text"])
            if found and int(found[1]) > sent.get(0, 1):
                return True
    return False


def _steps(lines):
    return [i for i, line in enumerate(lines) if not SET_UP.match(line)]


def _cut(lines, differs):
    """Without what comes behind the first difference."""
    steps = _steps(lines)
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        gone = set(steps[middle:])
        if differs([line for i, line in enumerate(lines) if i not in gone]):
            high = middle
        else:
            low = middle + 1
    gone = set(steps[high:])
    return [line for i, line in enumerate(lines) if i not in gone]


def _without_some(lines, size, differs):
    """Chunks of `size` lines are left out, from the end on, where it still differs."""
    end = len(lines)
    while end > 0:
        chunk = set(range(max(0, end - size), end)) & set(_steps(lines))
        smaller = [line for i, line in enumerate(lines) if i not in chunk]
        if chunk and differs(smaller):
            lines = smaller
        end -= size
    return lines
