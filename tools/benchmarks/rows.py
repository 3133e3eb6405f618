"""What a suite is made of.

A Leg is one thing that is run: a program, in a fresh process, giving a sample (a dict of numbers). A Row is one line of
the report: computed from the samples of one or more legs, and held against its target. Legs are shared between rows."""
import operator
import statistics
from dataclasses import dataclass, field
from typing import Callable, Optional

Sample = dict  # of float, e.g. {"p50": 1911.0, "rate": 498112.0}


class Unmeasurable(Exception):
    """Says why a leg cannot be run here: a missing privilege, a missing program, a program that failed."""


@dataclass(frozen=True)
class Leg:
    name: str
    run: Callable[[], Sample]
    exact: bool = False  # a count that repeats exactly: one round is enough


@dataclass
class Figure:
    """A row's value and what it is compared with, from the samples of one try."""
    value: float
    baseline: Optional[float] = None
    baseline_what: Optional[str] = None
    samples: list = field(default_factory=list)
    note: Optional[str] = None

    @property
    def ratio(self):
        return self.value / self.baseline if self.baseline else None


COMPARE = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Target:
    """`of` is "value" or "ratio"."""
    of: str
    relation: str
    bound: float

    def holds(self, figure: Figure) -> bool:
        number = getattr(figure, self.of)
        return number is not None and COMPARE[self.relation](number, self.bound)

    def text(self, unit: str) -> str:
        bound = f"{self.bound:,.15g}".replace(",", "'")
        return f"{self.relation} {bound}" + ("x" if self.of == "ratio" else f" {unit}")


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    unit: str
    legs: tuple
    targets: tuple
    compute: Callable[[dict], Figure]  # {leg name: [samples]} -> Figure

    def target_text(self) -> str:
        return " and ".join(t.text(self.unit) for t in self.targets)

    def holds(self, figure: Figure) -> bool:
        return all(t.holds(figure) for t in self.targets)


def column(samples: list, key: str) -> list:
    return [s[key] for s in samples]


def median(samples: list, key: str) -> float:
    return statistics.median(column(samples, key))


def best(samples: list, key: str) -> float:
    """For throughput: what the code can do when nothing disturbs it."""
    return max(column(samples, key))
