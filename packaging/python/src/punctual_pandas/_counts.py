"""Counts of latencies in buckets, and their quantiles by the rules of punctual."""

import math

# Latencies from this value on have no bucket: 1000 s.
BEYOND_NS = 10**12
# From this latency on, the rows of another tool can be finer than the buckets of punctual.
FINE_NS = 10**6


def width_of(lower_ns):
    """Returns the width of the bucket that begins at `lower_ns`.

    A bucket is 1 ns wide below 1 us. Above, its width is a thousandth of the end of its decade.
    """
    return 1 if lower_ns < 1000 else 10 ** (len(str(lower_ns)) - 3)


class Counts:
    """The latencies of one or more threads."""

    def __init__(self):
        self.buckets = {}
        self.fine = {}
        self.count = self.early = self.beyond = self.unplaced = 0
        self.unplaced_from = self.min = self.max = None
        self.max_unknown = False
        self.unit = self.row = 1

    @classmethod
    def from_json(cls, histogram):
        """Reads the object `histogram` of a recording."""
        counts = cls()
        counts.buckets = {int(lower): int(count) for lower, count in histogram["buckets"]}
        counts.count, counts.early = int(histogram["count"]), int(histogram["early"])
        counts.beyond = int(histogram["overflow"])
        counts.min, counts.max = histogram["min_ns"], histogram["max_ns"]
        grain = histogram.get("grain")
        if grain:
            counts.unit = max(int(grain["unit_ns"]), 1)
            counts.row = max(int(grain["row_ns"]), 1)
            counts.unplaced = int(grain.get("unplaced", 0))
            if counts.unplaced:
                counts.unplaced_from = int(grain.get("unplaced_from_ns", 0))
            counts.fine = {int(lower): int(count) for lower, count in grain.get("rows", [])}
            counts.max_unknown = bool(grain.get("max_unknown", False))
            if counts.max_unknown:
                counts.max = None
        placed = sum(counts.buckets.values()) + counts.beyond + counts.unplaced
        if placed != counts.count:
            raise ValueError(
                f"the buckets contain {placed} samples, but the histogram counts {counts.count}"
            )
        return counts

    def add(self, other):
        """Adds all samples of `other`."""
        for mine, theirs in ((self.buckets, other.buckets), (self.fine, other.fine)):
            for lower, count in theirs.items():
                mine[lower] = mine.get(lower, 0) + count
        self.count += other.count
        self.early += other.early
        self.beyond += other.beyond
        if other.unplaced:
            known = [one for one in (self.unplaced_from, other.unplaced_from) if one is not None]
            self.unplaced_from = min(known)
            self.unplaced += other.unplaced
        self.max_unknown |= other.max_unknown
        known = [one for one in (self.min, other.min) if one is not None]
        self.min = min(known, default=None)
        known = [one for one in (self.max, other.max) if one is not None]
        self.max = None if self.max_unknown else max(known, default=None)
        self.unit, self.row = max(self.unit, other.unit), max(self.row, other.row)

    def recorded(self):
        """Returns the number of all samples, with early ones."""
        return self.count + self.early

    def rows(self):
        """Yields (place, lower_ns, width_ns, count) at the finest known resolution."""
        if self.early:
            yield "early", None, None, self.early
        coarse = sum(count for lower, count in self.buckets.items() if lower >= FINE_NS)
        has_fine = bool(self.fine) and sum(self.fine.values()) == coarse
        for lower, count in sorted(self.buckets.items()):
            if lower < FINE_NS or not has_fine:
                yield "bucket", lower, max(width_of(lower), self.row), count
        if has_fine:
            for lower, count in sorted(self.fine.items()):
                yield "bucket", lower, self.row, count
        if self.unplaced:
            yield "unplaced", self.unplaced_from, None, self.unplaced
        if self.beyond:
            yield "beyond", BEYOND_NS, None, self.beyond

    def at_rank(self, rank):
        """Returns the latency of a sample; rank 1 is the smallest sample that was not early.

        The result is the upper end of a bucket, limited by the exact minimum and maximum. `None`
        if the samples do not determine it.
        """
        if rank > self.count:
            return None
        seen = 0
        for lower, count in sorted(self.buckets.items()):
            seen += count
            if seen >= rank:
                if self.unplaced and lower >= self.unplaced_from:
                    break
                upper = lower + width_of(lower) - 1
                if self.row > 1 or self.unit > 1:
                    upper = (upper // self.row + 1) * self.row - 1
                    upper -= upper % self.unit
                upper = max(upper, self.min or 0)
                return upper if self.max is None else min(upper, self.max)
        return self.max if not self.unplaced or rank == self.count else None


def rank_of(quantile, total):
    """Returns the rank of a quantile by nearest rank. `None` without samples."""
    if not total:
        return None
    exact = quantile * total
    # 0.999 * 1000 is 999.0000000000001 in floating point, but must give rank 999.
    return min(max(math.ceil(exact - abs(exact) * 1e-12), 1), total)


def is_supported(quantile, count):
    """Returns whether at least one sample is expected above a quantile."""
    return count * (1 - quantile) > 1 - 1e-6


def quantile_of_samples(counts, quantile):
    """Returns a quantile of the samples. `None` if they do not determine it."""
    if not is_supported(quantile, counts.count):
        return None
    return counts.at_rank(rank_of(quantile, counts.count))


def quantile_of_due(known, unknown, quantile):
    """Returns a quantile of `known` latencies and `unknown` ones. `None` if it depends on these."""
    periods = known.recorded() + unknown
    if not is_supported(quantile, periods):
        return None

    def at(rank):
        # Early periods rank below all others.
        return 0 if rank <= known.early else known.at_rank(rank - known.early)

    rank = rank_of(quantile, periods)
    least, most = at(rank - unknown), at(rank)
    return most if least == most else None
