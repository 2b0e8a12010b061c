"""The sampling bias of a convex function of an observed rate, for functions other than the square.

For h(x) = x^2 the unbiased estimate of Proposition 4.3 (Perez-Lebel et al. 2023) is exact. For the
log loss no unbiased estimate exists, and the jackknife leaves half of the bias if events are rare.
Here the bias (the "excess") is computed under a null hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

# standard deviation, in rows, above which a Taylor series replaces the sum over all counts
SERIES_FROM = 8.0
REACH = 7.0  # standard deviations on each side of the mean that a sum covers


@dataclass(frozen=True)
class Convex:
    """A convex function on [0, 1] with its second to fourth derivatives. Near 0 it is x log x, or
    x^2."""

    value: Function
    second: Function
    third: Function
    fourth: Function
    both_ends: bool = False  # whether h is symmetric in x and 1 - x

    def series(self, mean: np.ndarray, variance: np.ndarray, skew: np.ndarray) -> np.ndarray:
        """E h(X) - h(E X) from the central moments of X; the fourth is that of a normal
        variable."""
        inside = np.clip(mean, 1e-12, 1 - 1e-12)
        return np.asarray(
            self.second(inside) * variance / 2
            + self.third(inside) * skew / 6
            + self.fourth(inside) * variance**2 / 8
        )


def shared_rate_excess(
    h: Convex, rows: np.ndarray, hits: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """E h(X / size) - h(hits / rows), if `size` of `rows` rows are drawn without replacement and
    `hits` of all are hits.

    This is the mean excess of regions that do not differ, given the hits of their level set: X is
    then hypergeometric, whatever the true rate. Fractional numbers of rows are interpolated.

    >>> entropy = Convex(lambda x: x * x, lambda x: 2 + 0 * x, lambda x: 0 * x, lambda x: 0 * x)
    >>> found = shared_rate_excess(entropy, np.array([20.0]), np.array([5.0]), np.array([8.0]))
    >>> bool(np.isclose(found[0], 0.25 * 0.75 / 8 * 12 / 19))
    True
    """
    rows, hits, size = (
        np.asarray(part, np.float64).ravel() for part in np.broadcast_arrays(rows, hits, size)
    )
    whole = np.maximum(np.rint(rows), 1.0)
    hits, size = np.minimum(hits, whole), np.minimum(size, whole)

    def at(hits: np.ndarray, size: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return _hypergeometric(h, rows, hits, size)

    return _interpolated(at, (hits, size), whole)


def known_rate_excess(h: Convex, rate: np.ndarray, size: np.ndarray) -> np.ndarray:
    """E h(X / size) - h(rate) for a binomial X of `size` rows and that rate.

    >>> square = Convex(lambda x: x * x, lambda x: 2 + 0 * x, lambda x: 0 * x, lambda x: 0 * x)
    >>> bool(np.isclose(known_rate_excess(square, np.array([0.1]), np.array([12.0]))[0], 0.09 / 12))
    True
    """
    rate, size = (np.asarray(part, np.float64).ravel() for part in np.broadcast_arrays(rate, size))

    def at(size: np.ndarray, rate: np.ndarray) -> np.ndarray:
        return _binomial(h, rate, size)

    return _interpolated(at, (np.maximum(size, 1.0),), np.clip(rate, 0, 1))


def observed_rate_excess(
    h: Convex, rate: np.ndarray, size: np.ndarray, predicted: np.ndarray
) -> np.ndarray:
    """An estimate of E h(X / size) - h(E X / size) from an observed rate, for the log loss: nearly
    unbiased if the predicted rate is right.

    The excess at the observed rate is too small on average, as it is concave in the rate. The
    shortfall at the predicted rate is added. If the predicted rate is wrong, the excess is too
    large, by at most 0.3 / size.
    """
    rate, size, predicted = np.broadcast_arrays(rate, size, predicted)
    shortfall = (1 - predicted) * _shortfall_at(size * predicted)
    if h.both_ends:
        shortfall = shortfall + predicted * _shortfall_at(size * (1 - predicted))
    return known_rate_excess(h, rate, size).reshape(rate.shape) + shortfall / size


FEW_EVENTS = 12.0  # expected number of events above which there is no shortfall


def _shortfall_at(expected: np.ndarray) -> np.ndarray:
    """The mean shortfall of the excess of X log X, if computed at X instead of E X, for a Poisson
    count X."""
    return np.interp(expected, *_shortfall())


@lru_cache(maxsize=1)
def _shortfall() -> tuple[np.ndarray, np.ndarray]:
    """Expected numbers from 0 to FEW_EVENTS, and the shortfall at each."""
    from scipy.special import gammaln, xlogy

    means, counts = np.linspace(0, FEW_EVENTS, 241), np.arange(100.0)

    def poisson(mean: np.ndarray) -> np.ndarray:
        return np.asarray(
            np.exp(xlogy(counts, mean[:, None]) - mean[:, None] - gammaln(counts + 1))
        )

    def excess(mean: np.ndarray) -> np.ndarray:
        return np.asarray(poisson(mean) @ xlogy(counts, counts) - xlogy(mean, mean))

    at_counts = np.where(counts < 40, excess(np.minimum(counts, 40.0)), 0.5)
    found = np.maximum(excess(means) - poisson(means) @ at_counts, 0.0)
    found[-1] = 0.0
    return means, found


def _interpolated(
    at: Callable[..., np.ndarray], numbers: tuple[np.ndarray, ...], fixed: np.ndarray
) -> np.ndarray:
    """A function of whole numbers, with linear interpolation."""
    found = np.zeros(len(fixed))
    for corner in np.ndindex(*(2,) * len(numbers)):
        places, weight = [], np.ones(len(fixed))
        for number, up in zip(numbers, corner, strict=True):
            low = np.floor(number)
            part = number - low
            places.append(low + up)
            weight = weight * (part if up else 1 - part)
        used = weight > 1e-9
        if used.any():
            found[used] += weight[used] * at(*(place[used] for place in places), fixed[used])
    return found


def _hypergeometric(h: Convex, rows: np.ndarray, hits: np.ndarray, size: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln

    size = np.maximum(size, 1.0)
    rate = hits / rows
    left = (rows - size) / np.maximum(rows - 1, 1.0)
    variance = size * rate * (1 - rate) * left
    skew = variance * (1 - 2 * rate) * (rows - 2 * size) / np.maximum(rows - 2, 1.0)
    many = variance > SERIES_FROM**2
    found = np.where(many, h.series(rate, variance / size**2, skew / size**3), 0.0)
    N, H, n, v = (part[~many] for part in (rows, hits, size, variance))

    def choose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(gammaln(a + 1) - gammaln(b + 1) - gammaln(a - b + 1))

    def log_mass(k: np.ndarray, i: np.ndarray) -> np.ndarray:
        return choose(H[i], k) + choose(N[i] - H[i], n[i] - k) - choose(N[i], n[i])

    least, most = np.maximum(0, n + H - N), np.minimum(n, H)
    mean = _mean_over_counts(n * H / N, v, least, most, log_mass, lambda k, i: h.value(k / n[i]))
    found[~many] = mean - h.value(rate[~many])
    return found


def _binomial(h: Convex, rate: np.ndarray, size: np.ndarray) -> np.ndarray:
    variance = size * rate * (1 - rate)
    many = variance > SERIES_FROM**2
    found = np.where(
        many, h.series(rate, variance / size**2, variance * (1 - 2 * rate) / size**3), 0.0
    )
    few = ~many
    found[few] = _mean_of(rate[few], size[few], lambda x, n: h.value(x)) - h.value(rate[few])
    return found


def _mean_of(
    rate: np.ndarray, size: np.ndarray, of: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """E of(X / size, size) for a binomial X."""
    from scipy.special import gammaln, xlog1py, xlogy

    def log_mass(k: np.ndarray, i: np.ndarray) -> np.ndarray:
        n, p = size[i], rate[i]
        ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return np.asarray(ways + xlogy(k, p) + xlog1py(n - k, -p))

    variance = size * rate * (1 - rate)
    return _mean_over_counts(
        size * rate, variance, 0 * size, size, log_mass, lambda k, i: of(k / size[i], size[i])
    )


def _mean_over_counts(
    mean: np.ndarray,
    variance: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    log_mass: Callable[[np.ndarray, np.ndarray], np.ndarray],
    of: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Means of a function of a count, given its log probability. Both functions take counts and the
    index of the problem of each."""
    if not len(mean):
        return np.zeros(0)
    reach = REACH * np.sqrt(variance) + REACH
    first, last = np.maximum(least, np.floor(mean - reach)), np.minimum(most, np.ceil(mean + reach))
    terms = (last - first).astype(np.int64) + 1
    starts = np.cumsum(terms) - terms
    problem = np.repeat(np.arange(len(mean)), terms)
    count = first[problem] + np.arange(len(problem)) - starts[problem]
    mass = np.exp(log_mass(count, problem))
    return np.asarray(
        np.add.reduceat(mass * of(count, problem), starts) / np.add.reduceat(mass, starts)
    )
