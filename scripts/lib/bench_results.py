"""Values of all passes, and what is derived from them: best, median, and ratios taken within one pass.

Host noise makes absolute numbers of different minutes incomparable, so ratios compare runs of the same pass only.
"""

import statistics
from dataclasses import dataclass

from bench_programs import METRICS


@dataclass(frozen=True)
class Key:
    group: str
    case: str
    subject: str
    metric: str

    def of(self, subject: str) -> "Key":
        return Key(self.group, self.case, subject, self.metric)


@dataclass(frozen=True)
class Ratio:
    best: float
    median: float


class Results:
    """Samples by key and pass, in order of first appearance."""

    def __init__(self) -> None:
        self.samples: dict[Key, dict[int, float]] = {}
        self.failures: dict[tuple[str, str, str], int] = {}  # (group, case, subject) -> runs that gave nothing

    def add(self, key: Key, pass_number: int, value: float) -> None:
        self.samples.setdefault(key, {})[pass_number] = value

    def add_failure(self, group: str, case: str, subject: str) -> None:
        key = (group, case, subject)
        self.failures[key] = self.failures.get(key, 0) + 1

    def keys(self) -> list[Key]:
        """Groups and cases in the order of the run, then by metric, then subjects in the order of the run."""
        places: dict[tuple[str, ...], int] = {}
        for key in self.samples:
            for place in ((key.group,), (key.group, key.case), (key.group, key.case, key.subject)):
                places.setdefault(place, len(places))
        metrics = list(METRICS)
        return sorted(self.samples, key=lambda key: (
            places[(key.group,)], places[(key.group, key.case)], metrics.index(key.metric),
            places[(key.group, key.case, key.subject)]))

    def best(self, key: Key) -> float:
        return (max if METRICS[key.metric] else min)(self.samples[key].values())

    def median(self, key: Key) -> float:
        return statistics.median(self.samples[key].values())

    def ratios(self, key: Key, other: Key) -> list[float]:
        """How many times slower `key` is than `other`, in each pass that has both."""
        mine, theirs = self.samples.get(key, {}), self.samples.get(other, {})
        pairs = [(mine[number], theirs[number]) for number in mine if number in theirs]
        if METRICS[key.metric]:
            pairs = [(b, a) for a, b in pairs]
        return [a / b for a, b in pairs if b > 0]

    def slower(self, key: Key, other: Key) -> Ratio | None:
        """How many times slower `key` is than `other`; None without a common pass."""
        ratios = self.ratios(key, other)
        return Ratio(min(ratios), statistics.median(ratios)) if ratios else None

    def faster(self, key: Key, other: Key) -> Ratio | None:
        """How many times faster `key` is than `other`; None without a common pass."""
        ratios = self.ratios(other, key)
        return Ratio(max(ratios), statistics.median(ratios)) if ratios else None

    def rows(self) -> list[dict]:
        """What --json writes."""
        return [
            {"group": key.group, "case": key.case, "subject": key.subject, "metric": key.metric,
             "best": self.best(key), "median": self.median(key), "passes": len(self.samples[key])}
            for key in self.keys()
        ]
