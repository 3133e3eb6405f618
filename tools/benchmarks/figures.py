"""From samples to figures: the usual ways for a row to compute its value and its baseline."""
from .rows import Figure, best, column, median


def at_median(leg, key):
    def compute(samples):
        return Figure(median(samples[leg], key), samples=column(samples[leg], key))
    return compute


def paired(leg, key, baseline, baseline_what):
    """The round whose ratio is the median. The distance between two virtual CPUs changes with the hosts' mood, by a factor
    of five, so what depends on it is compared within a round."""
    def compute(samples):
        rounds = sorted(zip(column(samples[leg], key), column(samples[baseline], key)), key=lambda pair: pair[0] / pair[1])
        value, other = rounds[len(rounds) // 2]
        return Figure(value, other, baseline_what, column(samples[leg], key))
    return compute


def elsewhere(leg, key, figure, what):
    """Against a figure that was measured on this kind of machine before, not in this run."""
    def compute(samples):
        return Figure(median(samples[leg], key), figure, what, column(samples[leg], key))
    return compute


def at_best(leg, key, baseline=None, baseline_key=None, baseline_what=None):
    def compute(samples):
        other = best(samples[baseline], baseline_key or key) if baseline else None
        return Figure(best(samples[leg], key), other, baseline_what, column(samples[leg], key))
    return compute


def medians(leg, key, baseline, baseline_what):
    """The median of one against the median of the other."""
    def compute(samples):
        return Figure(median(samples[leg], key), median(samples[baseline], key), baseline_what, column(samples[leg], key))
    return compute
