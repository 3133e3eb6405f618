"""Turns rows into results: rounds of fresh processes, interleaved; medians; up to three tries."""
import subprocess
import sys

from .rows import Unmeasurable

TRIES = 3

# What a leg's own code runs into when a program's output is not what it should be, or the system says no: that leg's rows cannot be
# measured, and the others can.
BROKEN = (LookupError, ValueError, TypeError, ArithmeticError, OSError, subprocess.SubprocessError)


def measure(rows, legs, rounds, say=lambda text: None):
    """One result object a row (see docs/BENCHMARKS.md), in the order of `rows`. `legs`: {name: Leg}."""
    results = {}
    open_rows = list(rows)
    for attempt in range(1, TRIES + 1):
        samples, errors = _run_rounds(open_rows, legs, rounds, say)
        for row in open_rows:
            results[row.name] = _judge(row, samples, errors)
        # What cannot be measured now cannot be measured in a minute either.
        open_rows = [r for r in open_rows if not results[r.name]["holds"] and "error" not in results[r.name]]
        if not open_rows or all(_is_exact(r, legs) for r in open_rows):
            break
        if attempt < TRIES:
            say(f"try {attempt}: {', '.join(r.name for r in open_rows)} short of the target; once more")
    return [results[row.name] for row in rows]


def _is_exact(row, legs):
    return all(legs[name].exact for name in row.legs)


def _run_rounds(rows, legs, rounds, say):
    """A B C A B C ...: so that what drifts meanwhile drifts for all."""
    wanted = [legs[name] for name in legs if any(name in row.legs for row in rows)]
    samples = {leg.name: [] for leg in wanted}
    errors = {}
    for number in range(rounds):
        for leg in wanted:
            if leg.name in errors or (leg.exact and number > 0):
                continue
            say(f"round {number + 1} of {rounds}: {leg.name}")
            try:
                samples[leg.name].append(leg.run())
            except Unmeasurable as e:
                errors[leg.name] = str(e)
            except BROKEN as e:
                errors[leg.name] = f"{type(e).__name__}: {e}"
    return samples, errors


def _judge(row, samples, errors):
    result = {"row": row.name, "what": row.what, "value": None, "unit": row.unit, "baseline": None,
              "baseline_what": None, "ratio": None, "target": row.target_text(), "holds": False, "samples": []}
    failed = [errors[name] for name in row.legs if name in errors]
    if failed:
        result["error"] = failed[0]
        return result
    try:
        figure = row.compute({name: samples[name] for name in row.legs})
    except (LookupError, ValueError, TypeError, ArithmeticError) as e:
        result["error"] = f"a program's output lacks what this row needs: {e!r}"
        return result
    result.update(value=figure.value, baseline=figure.baseline, baseline_what=figure.baseline_what, ratio=figure.ratio,
                  holds=row.holds(figure), samples=figure.samples)
    if figure.note:
        result["note"] = figure.note
    return result


def progress(text):
    """For people who wait: one line, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def end_progress():
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
