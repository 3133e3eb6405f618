"""The benchmark harness behind tools/bench: suites of rows, each a figure, its baseline and its target."""
