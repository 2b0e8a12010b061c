"""The calibration error of a single event by log loss: local logistic regression on the log odds
of the outputs.

Chidambaram & Ge 2024 (Theorem C.4) estimate E d(E[target | output], output) from a kernel
regression m of the targets. For log loss

    E d(m(p), p) = E[loss of p] - E[loss of m(p)],

    loss of p = -log p if the event happened, else -log(1 - p),

where the first mean needs no regression. Their Eq. C.3 takes the second as the mean entropy of m.
With the Nadaraya-Watson regression of their code this is biased: a kernel of width 0.05 mixes
outputs near 0 or near 1, where the losses differ most.

Here the log odds of the targets are linear in the log odds of the outputs within each kernel window
(local likelihood; Loader 1999), so that a calibrated model, a wrong temperature and wrong priors
are fitted without bias. The loss of m is a leave-one-out loss, minus what the noise of m adds to
it, to first order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .cells import BATCH, Cells

# weight, in rows, of a penalty that pulls each line towards the outputs: a window without misses
# then has a finite fit
RIDGE = 0.03
LARGEST = 40.0  # log odds are clipped to +-LARGEST
CELLS_PER_WIDTH = (
    2  # cells within a kernel's width at log odds 0; at t they are 1 + |t| times wider
)
WIDEST = 0.05  # cells do not get wider for wider kernels
NARROWEST = 0.01  # bandwidth: for narrower kernels the cells would be too wide
STEP = 3.0  # longest step of Newton's method; halved if it raises the loss
ALONE = 0.5  # longest single step, which is not checked; resamples then agree with full fits
STEPS = 100
HALVINGS = 30
PRECISION = 1e-9
ROUNDING = 1e-12
LEAST_LEFT = 0.05  # least share of a window's information that is left without a row


@dataclass(frozen=True)
class EventOdds:
    """Rows of one event: outputs, their log odds, the loss (-log of the probability of what
    happened), labels 0 or 1, weights (positive, at most 1), and the places of the rows among all
    `total`."""

    outputs: np.ndarray
    log_odds: np.ndarray
    loss: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int

    @classmethod
    def of(
        cls,
        outputs: np.ndarray,
        others: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        places: np.ndarray,
        total: int,
    ) -> EventOdds:
        """From the probabilities of the event and of its complement, because 1 - p loses small
        ones."""
        with np.errstate(divide="ignore"):
            happens, fails = np.log(outputs), np.log(others)
        some = weights > 0
        odds = np.clip(
            np.where(others > 0, happens - np.where(others > 0, fails, 0.0), np.inf),
            -LARGEST,
            LARGEST,
        )
        loss = np.where(labels == 1, -happens, -fails) + 0.0
        return cls(
            outputs[some], odds[some], loss[some], labels[some], weights[some], places[some], total
        )

    @property
    def infinite_rows(self) -> int:
        return int(np.isinf(self.loss).sum())

    def cell_numbers(self, bandwidth: float) -> np.ndarray:
        """The cell of each row, numbered from 0 without gaps. Cells are equal steps of sign(t)
        log(1 + |t|) for log odds t."""
        scale = np.sign(self.log_odds) * np.log1p(np.abs(self.log_odds))
        cell = np.floor(scale * CELLS_PER_WIDTH / min(bandwidth, WIDEST)).astype(np.int64)
        return np.asarray(np.unique(cell, return_inverse=True)[1]).reshape(-1)


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each cell: weights, weights of rows in which the event happened, and
    squared weights. Arrays [..., G]."""

    weight: np.ndarray
    hits: np.ndarray
    squared: np.ndarray

    @classmethod
    def of_cells(cls, cells: Cells) -> Sums:
        return cls(cells.weight, cells.weight * cells.targets, cells.weight_squared)


@dataclass(frozen=True)
class LocalLogistic:
    """Local logistic regression in a window around each of G cells: target log odds = output log
    odds + level + slope x distance.

    near : the kernel K between windows and cells, [G, G], as are the next three.
    distance : in log odds, divided by its standard deviation in the window.
    fitted, spread : K p and K p (1 - p) with the fitted probability p.
    """

    log_odds: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    near: np.ndarray
    distance: np.ndarray
    fitted: np.ndarray
    spread: np.ndarray
    ridge: float

    @classmethod
    def fit(cls, log_odds: np.ndarray, sums: Sums, near: np.ndarray) -> LocalLogistic:
        """near : the kernel between windows and cells, 1 at its peak."""
        gap = log_odds - log_odds[:, None]
        width = np.sqrt((near * sums.weight * gap**2).sum(axis=1) / (near @ sums.weight))
        distance = gap / np.where(width > 0, width, 1.0)[:, None]
        ridge = RIDGE * float(sums.squared.sum() / sums.weight.sum())
        none = np.zeros(len(log_odds))
        fit = cls._at(log_odds, none, none, near, distance, ridge)
        for _ in range(STEPS):
            level, slope, _ = fit._step(sums, STEP)
            move = level - fit.level, slope - fit.slope
            if max(np.abs(move).max(axis=1)) <= PRECISION:
                break
            fit = fit._moved(sums, *move)
        return fit

    def _moved(self, sums: Sums, level: np.ndarray, slope: np.ndarray) -> LocalLogistic:
        """A step, halved in windows where it would raise the loss."""
        before, share = self._objective(sums), np.ones(len(level))
        for _ in range(HALVINGS):
            moved = self._at(
                self.log_odds,
                self.level + share * level,
                self.slope + share * slope,
                self.near,
                self.distance,
                self.ridge,
            )
            worse = moved._objective(sums) > before * (1 + ROUNDING)
            if not worse.any():
                break
            share[worse] /= 2
        return moved

    def _objective(self, sums: Sums) -> np.ndarray:
        """The penalised loss in each window."""
        odds = self.log_odds + self.level[:, None] + self.slope[:, None] * self.distance
        hits = sums.hits / np.where(sums.weight > 0, sums.weight, 1.0)
        loss = softplus(odds) - hits * odds
        return np.asarray(
            (self.near * loss) @ sums.weight + self.ridge * (self.level**2 + self.slope**2) / 2
        )

    @classmethod
    def _at(
        cls,
        log_odds: np.ndarray,
        level: np.ndarray,
        slope: np.ndarray,
        near: np.ndarray,
        distance: np.ndarray,
        ridge: float,
    ) -> LocalLogistic:
        p = logistic(log_odds + level[:, None] + slope[:, None] * distance)
        return cls(log_odds, level, slope, near, distance, near * p, near * p * (1 - p), ridge)

    def _step(
        self, sums: Sums, longest: float = ALONE
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Level and slope after one Newton step for other sums [..., G] of the same cells, and how
        far a unit residual at the centre of a window moves its level."""
        near, x = self.near, self.distance
        score = sums.hits @ near.T - sums.weight @ self.fitted.T - self.ridge * self.level
        tilt = (
            sums.hits @ (near * x).T - sums.weight @ (self.fitted * x).T - self.ridge * self.slope
        )
        a, b, c = (sums.weight @ (self.spread * power).T for power in (1.0, x, x**2))
        a, c = a + self.ridge, c + self.ridge
        scale = a * c - b**2
        level, slope = (c * score - b * tilt) / scale, (a * tilt - b * score) / scale
        far = np.maximum(1.0, np.maximum(np.abs(level), np.abs(slope)) / longest)
        return self.level + level / far, self.slope + slope / far, c / scale

    def left_out_losses(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        """The leave-one-out loss of a row in each cell if the event does not happen, and if it
        does. The fit without the row is one Newton step from the fit with it."""
        level, _, influence = self._step(sums)
        odds = self.log_odds + level
        p = logistic(odds)
        share = np.divide(
            sums.squared, sums.weight, out=np.zeros_like(sums.weight), where=sums.weight > 0
        )
        influence = influence * share * np.diagonal(self.near)
        influence = influence / np.maximum(1 - influence * p * (1 - p), LEAST_LEFT)
        return softplus(odds + influence * p), softplus(influence * (1 - p) - odds)

    def noise(self, sums: Sums) -> np.ndarray:
        """By how much the noise of the fit raises the leave-one-out loss: its variance times
        p (1 - p) / 2."""
        x, spread = self.distance, self.near * self.spread
        _, _, first = self._step(sums)
        second = (
            -first
            * (sums.weight @ (self.spread * x).T)
            / (sums.weight @ (self.spread * x**2).T + self.ridge)
        )
        a, b, c = (sums.squared @ (spread * power).T for power in (1.0, x, x**2))
        return self._raised(first**2 * a + 2 * first * second * b + second**2 * c)

    def _raised(self, variance: np.ndarray) -> np.ndarray:
        p = logistic(self.log_odds + self.level)
        return np.asarray(p * (1 - p) * variance / 2)

    def without_clusters(self, sums: Sums, part: Callable[[slice], Sums], clusters: int) -> float:
        """The mean loss, less the noise of the fit, if whole clusters are left out. `part` returns
        the sums [C, G] of some clusters."""
        loss, variance = 0.0, np.zeros(len(self.level))
        step = max(1, BATCH // len(self.level))
        for first in range(0, clusters, step):
            own = part(slice(first, min(first + step, clusters)))
            rest = Sums(sums.weight - own.weight, sums.hits - own.hits, sums.squared - own.squared)
            level = self._step(rest)[0]
            odds = self.log_odds + level
            loss += float(
                (own.hits * softplus(-odds) + (own.weight - own.hits) * softplus(odds)).sum()
            )
            variance += ((level - self.level) ** 2).sum(axis=0)
        return (loss - float(sums.weight @ self._raised(variance))) / float(sums.weight.sum())


@dataclass(frozen=True)
class LogCalibration:
    """The calibration error of an event by log loss. It is debiased, so it may be negative.

    cell : the cell of each row.
    refined : the leave-one-out loss of each row, less the noise of the fit.
    losses : [G, 2], mean losses of rows in which the event did not happen, and in which it did.
    """

    value: float
    odds: EventOdds
    cell: np.ndarray
    refined: np.ndarray
    fit: LocalLogistic
    losses: np.ndarray

    @classmethod
    def of(
        cls,
        odds: EventOdds,
        kernel: Callable[[np.ndarray], np.ndarray],
        bandwidth: float,
        *,
        reflect: bool = False,
        clusters: np.ndarray | None = None,
    ) -> LogCalibration:
        """clusters : the cluster of each of all rows; rows of a cluster are left out together."""
        cell = odds.cell_numbers(bandwidth)
        size = int(cell.max()) + 1

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(cell, values, minlength=size)

        w, hit = odds.weights, odds.weights * odds.labels
        sums = Sums(total(w), total(hit), total(w**2))
        place = total(w * odds.log_odds) / sums.weight
        fit = LocalLogistic.fit(
            place, sums, _kernel_weights(logistic(place), kernel, bandwidth, reflect)
        )
        finite = np.where(np.isfinite(odds.loss), odds.loss, 0.0)
        parts = (
            (total((w - hit) * finite), sums.weight - sums.hits),
            (total(hit * finite), sums.hits),
        )
        losses = np.column_stack(
            [np.divide(x, n, out=np.zeros(size), where=n > 0) for x, n in parts]
        )
        left_out = np.column_stack(fit.left_out_losses(sums)) - fit.noise(sums)[:, None]
        refined = left_out[cell, odds.labels]
        after = float((w * refined).sum() / w.sum())
        if clusters is not None:
            after = _without_clusters(fit, sums, odds, cell, clusters[odds.places])
        value = np.inf if odds.infinite_rows else float((w * odds.loss).sum() / w.sum()) - after
        return cls(value, odds, cell, refined, fit, losses)

    def of_resample(self, cells: Cells) -> np.ndarray:
        """The error in resamples of the rows, without the correction for the noise of the fit. Each
        fit is one Newton step from the original one."""
        sums = Sums.of_cells(cells)
        fails, happens = self.fit.left_out_losses(sums)
        before = sums.hits * self.losses[:, 1] + (sums.weight - sums.hits) * self.losses[:, 0]
        after = sums.hits * happens + (sums.weight - sums.hits) * fails
        return np.asarray((before - after).sum(axis=-1) / sums.weight.sum(axis=-1))


def _kernel_weights(
    x: np.ndarray, kernel: Callable[[np.ndarray], np.ndarray], bandwidth: float, reflect: bool
) -> np.ndarray:
    images = [x, -x, 2 - x] if reflect else [x]
    return np.asarray(
        sum(kernel((x[:, None] - image) / bandwidth) for image in images) / kernel(np.zeros(1))
    )


def _without_clusters(
    fit: LocalLogistic, sums: Sums, odds: EventOdds, cell: np.ndarray, clusters: np.ndarray
) -> float:
    from scipy.sparse import csr_array

    number = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    shape = (int(number.max()) + 1, len(sums.weight))
    tables = [
        csr_array((values, (number, cell)), shape=shape)
        for values in (odds.weights, odds.weights * odds.labels, odds.weights**2)
    ]
    return fit.without_clusters(
        sums, lambda some: Sums(*(table[some].toarray() for table in tables)), shape[0]
    )


def logistic(t: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    return np.asarray(expit(t))


def softplus(t: np.ndarray) -> np.ndarray:
    """log(1 + exp(t)); faster than numpy's logaddexp."""
    return np.asarray(np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t))))
