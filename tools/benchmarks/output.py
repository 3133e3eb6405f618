"""What is printed: a table for people, Markdown for docs/BENCHMARKS.md. The JSON is the report object itself."""


def number(value):
    """Four digits that matter: 12'345, 1'234, 123.4, 1.234."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "'")
    digits = 0 if value == int(value) else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3 if abs(value) >= 1 else 4
    return f"{value:.{digits}f}"


def with_unit(value, unit):
    return "-" if value is None else f"{number(value)} {unit}".strip()


def verdict(row):
    if "error" in row:
        return "cannot be measured"
    return "holds" if row["holds"] else "falls short"


def _cells(row):
    baseline = "-"
    if row["baseline"] is not None:
        baseline = with_unit(row["baseline"], row["unit"])
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}x"
    return [row["row"], with_unit(row["value"], row["unit"]), baseline, ratio, row["target"], verdict(row)]


HEADINGS = ["row", "value", "baseline", "ratio", "target", ""]


def environment_lines(environment):
    return [f"{key:<9} {value}" for key, value in environment.items()]


def table(report):
    rows = [HEADINGS] + [_cells(row) for row in report["rows"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    lines = environment_lines(report["environment"]) + [""]
    for i, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:5], widths[1:5])] + [row[5]]
        lines.append("  ".join(cells).rstrip())
        if i == 0:
            lines.append("-" * len(lines[-1]))
    notes = [f"{r['row']}: {r['error']}" for r in report["rows"] if "error" in r]
    notes += [f"{r['row']}: baseline is {r['baseline_what']}" for r in report["rows"] if r["baseline_what"]]
    notes += [f"{r['row']}: {r['note']}" for r in report["rows"] if r.get("note")]
    return "\n".join(lines + ([""] + notes if notes else []))


def markdown(report):
    environment = ", ".join(f"{key} {value}" for key, value in report["environment"].items())
    lines = [f"Measured on: {environment}.", ""]
    if not report.get("quiet", True):
        lines += [f"The machine was not quiet ({report.get('disturbed_samples', 0)} disturbed samples): not figures to keep.", ""]
    lines += ["| what | value | baseline | ratio | target | |",
             "| --- | ---: | ---: | ---: | --- | --- |"]
    for row in report["rows"]:
        _, value, baseline, ratio, target, word = _cells(row)
        if row["baseline_what"]:
            baseline += f" ({row['baseline_what']})"
        word = f"{word}: {row['error']}" if "error" in row else word
        lines.append(f"| {row['what']} (`{row['row']}`) | {value} | {baseline} | {ratio} | {target} | {word} |")
    return "\n".join(lines)
