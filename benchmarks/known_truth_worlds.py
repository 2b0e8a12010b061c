"""Simulated worlds and the population values against which estimators are evaluated.

A world draws rows together with their true class probabilities. Population values are means over a
large reference sample in which the true probabilities replace the labels, so they have no label
noise. `Truth.error` is their remaining standard error, estimated from the spread over blocks of the
reference sample.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy.fft import dct, idct
from scipy.special import ndtri, xlogy

from probaudit import simulate

BINS = 15
BLOCKS, BLOCK_VALUES = 8, 250_000  # blocks of the reference sample, and outputs per block
REJECT = 0.1  # cost of the reject option
BANDWIDTH, CELLS = 0.05, 600  # bandwidth of the kernel error; cells of the grid for smoothing
CLUSTER_ROWS, CORRELATION = 20, 0.3
MANY_ROWS = 20_000  # above this, fixed class counts do no harm


@dataclass(frozen=True)
class Draw:
    """Rows of a world.

    y, p, truth : labels, outputs [n, K], and the true probabilities [n, K] of the labels.
    features, group, clusters : None if the world has none.
    other : outputs of a second model, for comparisons.
    """

    y: np.ndarray
    p: np.ndarray
    truth: np.ndarray
    features: np.ndarray | None = None
    group: np.ndarray | None = None
    clusters: np.ndarray | None = None
    other: np.ndarray | None = None
    world: str = ""


@dataclass(frozen=True)
class World:
    """A population.

    words : its description on the page.
    values : population values known in closed form.
    """

    name: str
    words: str
    draw: Callable[[int, np.random.Generator], Draw]
    values: Mapping[str, float] = field(default_factory=dict)

    def sample(self, n: int, replication: int) -> Draw:
        """The rows of one replication, the same for every estimator."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), n, replication])
        return replace(self.draw(n, rng), world=self.name)


@dataclass(frozen=True)
class Truth:
    value: float
    error: float = 0.0


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def labels(rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    edges = truth.cumsum(axis=1)
    return (
        (rng.random((len(truth), 1)) * edges[:, -1:] >= edges)
        .sum(axis=1)
        .clip(max=truth.shape[1] - 1)
    )


def _binary(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - p, p])


# Draws of each world.


def scaled_logits(
    classes: int, scale: float, spread: float = 2.0
) -> Callable[[int, np.random.Generator], Draw]:
    """Normal logits. Labels follow their softmax; outputs are the softmax of `scale` x logits."""

    def draw(n: int, rng: np.random.Generator) -> Draw:
        z = spread * rng.standard_normal((n, classes))
        truth = softmax(z)
        p = truth if scale == 1 else softmax(scale * z)
        noise = rng.standard_normal((n, 3))
        return Draw(labels(rng, truth), p, truth, noise, np.arange(n) % 10, other=softmax(1.7 * z))

    return draw


def rare(n: int, rng: np.random.Generator) -> Draw:
    p = _binary(rng.beta(0.3, 30, n))
    return Draw(labels(rng, p), p, p)


def constant(probabilities: np.ndarray) -> Callable[[int, np.random.Generator], Draw]:
    def draw(n: int, rng: np.random.Generator) -> Draw:
        p = np.tile(probabilities, (n, 1))
        return Draw(labels(rng, p), p, p)

    return draw


def gaussian(kind: str) -> Callable[[int, np.random.Generator], Draw]:
    """Posteriors of two Gaussian classes (Ferrer & Ramos 2025, Section 3).

    `simulate` fixes the class counts. Taking one row in twenty makes them nearly as random as those
    of independent rows. The large reference sample does not need this.
    """

    def draw(n: int, rng: np.random.Generator) -> Draw:
        world = simulate.gaussian_posteriors(
            n if n > MANY_ROWS else 20 * n, 2, seed=int(rng.integers(2**31))
        )
        y, truth, p = world.y[:n], world.cal[:n], getattr(world, kind)[:n]
        return Draw(y, p, truth, other=world.cal[:n])

    return draw


def grouped(
    make: Callable[..., simulate.GroupedWorld], **choices: object
) -> Callable[[int, np.random.Generator], Draw]:
    """Worlds of Perez-Lebel et al. 2023, Appendix B."""

    def draw(n: int, rng: np.random.Generator) -> Draw:
        world = make(n, seed=int(rng.integers(2**31)), **choices)
        return Draw(
            world.y, _binary(world.scores), _binary(world.truth), world.features, world.group
        )

    return draw


def joint(n: int, rng: np.random.Generator) -> Draw:
    """Three classes. A hidden sign moves 80% of the smaller of two probabilities between classes 0
    and 1."""
    p = rng.dirichlet([2, 2, 2], n)
    sign, room = rng.choice([-1.0, 1.0], n), 0.8 * p[:, :2].min(axis=1)
    truth = p + np.outer(sign * room, [1, -1, 0])
    features = np.column_stack([sign + 0.3 * rng.standard_normal(n), rng.standard_normal(n)])
    return Draw(labels(rng, truth), p, truth, features)


def clustered(scale: float) -> Callable[[int, np.random.Generator], Draw]:
    """Clusters whose rows share part of their logits and a probit random effect of their labels.

    The effect has a share CORRELATION of a total variance of 1, so each label follows its own
    probability exactly: the rows are calibrated, but dependent.
    """

    def draw(n: int, rng: np.random.Generator) -> Draw:
        cluster = np.arange(n) // CLUSTER_ROWS
        size = int(cluster[-1]) + 1
        z = 1.4 * rng.standard_normal(size)[cluster] + 1.4 * rng.standard_normal(n)
        truth = 1 / (1 + np.exp(-z))
        latent = np.sqrt(CORRELATION) * rng.standard_normal(size)[cluster]
        latent += np.sqrt(1 - CORRELATION) * rng.standard_normal(n)
        y = (latent < ndtri(truth)).astype(np.int64)
        p = 1 / (1 + np.exp(-scale * z))
        other = 1 / (1 + np.exp(-(1.7 if scale == 1 else 1.0) * z))
        return Draw(y, _binary(p), _binary(truth), clusters=cluster, other=_binary(other))

    return draw


def _half_link(s: np.ndarray) -> np.ndarray:
    return np.minimum(1, 2 * s)


def _nothing(u: np.ndarray) -> np.ndarray:
    return np.zeros_like(u)


def _unfair_values() -> dict[str, float]:
    """Grouping loss of the three groups of `unfair_groups` in bins of equal width, in closed form.

    Scores are uniform in every group. Within a bin, a group therefore differs from the mean of the
    bin by its effect times the mean of min(s, 1 - s).
    """
    s = (np.arange(150_000) + 0.5) / 150_000
    room = np.minimum(s, 1 - s).reshape(BINS, -1).mean(axis=1)
    return {"grouping known groups": float(np.mean([0.6**2, 0.0, 0.6**2]) * np.mean(room**2))}


def _linked_values(world: simulate.GroupedWorld) -> dict[str, float]:
    return {"grouping brier": world.grouping_loss, "grouping log": world.log_grouping_loss}


@cache
def worlds() -> dict[str, World]:
    """All worlds by name."""
    found = [
        World(
            f"calibrated, K = {k}",
            f"{k} classes, logits 2 N(0, 1), labels from their softmax",
            scaled_logits(k, 1.0),
        )
        for k in (2, 3, 10)
    ]
    words = "100 classes, logits 0.5 N(0, 1), labels from their softmax: outputs hardly differ"
    found.append(World("calibrated, K = 100", words, scaled_logits(100, 1.0, 0.5)))
    for scale in (1.15, 1.7):
        for k in (2, 3, 10):
            words = f'like "calibrated, K = {k}", with logits multiplied by {scale}: overconfident'
            found.append(World(f"logits x {scale}, K = {k}", words, scaled_logits(k, scale)))
    found.append(
        World("rare positives", "risks from Beta(0.3, 30), prevalence 1%, calibrated", rare)
    )
    words = "100 classes, every output 0.01, labels uniform: calibrated and uninformative"
    found.append(World("constant, K = 100", words, constant(np.full(100, 0.01))))
    found.append(
        World("constant, K = 2", "every output 0.3, prevalence 0.3", constant(np.array([0.7, 0.3])))
    )
    kinds = {
        "cal": (
            "true posteriors of two Gaussian classes, prior 0.8 (Ferrer & Ramos 2025, Section 3)"
        ),
        "mcs": "the same with logits multiplied by 5",
        "mcp": "the same with wrong priors",
        "mcps": "the same with wrong priors and logits multiplied by 5",
    }
    found += [World(f"Gaussian {kind}", words, gaussian(kind)) for kind, words in kinds.items()]
    found += [
        World(
            "hidden direction",
            "scores of a network that ignores one direction of its features (Perez-Lebel et al."
            " 2023, Appendix B.2)",
            grouped(simulate.neural_outputs),
            _linked_values(simulate.neural_outputs(10)),
        ),
        World(
            "linked scores",
            "scores that do not depend on the sign of one feature (Appendix B.1); for one sign the"
            " truth is min(1, 2 score)",
            grouped(simulate.linked_scores, link=_half_link),
            _linked_values(simulate.linked_scores(10, _half_link)),
        ),
        World(
            "no hidden groups",
            '"hidden direction" without its effect: the score is the truth',
            grouped(simulate.neural_outputs, perturbation=_nothing, dimension=4),
            _linked_values(simulate.neural_outputs(10, perturbation=_nothing)),
        ),
        World(
            "three known groups",
            "uniform scores, too low for one group and too high for another"
            " (`simulate.unfair_groups`)",
            grouped(simulate.unfair_groups),
            _unfair_values(),
        ),
        World(
            "joint, K = 3",
            "Dirichlet(2, 2, 2) outputs; a hidden sign moves probability between two classes",
            joint,
        ),
    ]
    for name, scale in (("clustered", 1.0), ("clustered, logits x 1.7", 1.7)):
        words = (
            f"clusters of {CLUSTER_ROWS} rows; outputs and labels are dependent within clusters"
            + ("" if scale == 1 else "; logits multiplied by 1.7")
        )
        found.append(World(name, words, clustered(scale)))
    return {world.name: world for world in found}


# Population values. Each function takes outputs [N, K] and true probabilities [N, K].


def _log(p: np.ndarray, truth: np.ndarray) -> float:
    return float(-xlogy(truth, p).sum(axis=1).mean())


def _brier(p: np.ndarray, truth: np.ndarray) -> float:
    return float(((p**2).sum(axis=1) - 2 * (p * truth).sum(axis=1) + 1).mean())


def _wrong(p: np.ndarray, truth: np.ndarray) -> float:
    return float(1 - np.take_along_axis(truth, p.argmax(axis=1)[:, None], 1).mean())


def _reject(p: np.ndarray, truth: np.ndarray) -> float:
    right = np.take_along_axis(truth, p.argmax(axis=1)[:, None], 1)[:, 0]
    return float(np.where(1 - p.max(axis=1) <= REJECT, 1 - right, REJECT).mean())


SCORES = {"log": _log, "brier": _brier, "0-1": _wrong, "reject": _reject}


def _naive(name: str, priors: np.ndarray) -> float:
    """The score of the base-rate forecast, or the cost of the best constant decision."""
    error = float(1 - priors.max())
    values = {
        "log": float(-xlogy(priors, priors).sum()),
        "brier": float(1 - (priors**2).sum()),
        "0-1": error,
    }
    return values[name] if name in values else min(error, REJECT)


def top_label(p: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = p.argmax(axis=1)[:, None]
    return p.max(axis=1), np.take_along_axis(truth, best, 1)[:, 0]


def among(k: int, p: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability that the true class is among the k most probable: predicted and true."""
    best = np.argpartition(-p, k - 1, axis=1)[:, :k]
    return np.take_along_axis(p, best, 1).sum(axis=1).clip(max=1), np.take_along_axis(
        truth, best, 1
    ).sum(axis=1)


def _width_bins(outputs: np.ndarray, bins: int = BINS) -> np.ndarray:
    return np.minimum((outputs * bins).astype(np.int64), bins - 1)


def _mass_bins(outputs: np.ndarray, bins: int = BINS) -> np.ndarray:
    found = np.empty(len(outputs), np.int64)
    found[np.argsort(outputs, kind="stable")] = np.arange(len(outputs)) * bins // len(outputs)
    return found if outputs.min() < outputs.max() else np.zeros_like(found)


def _gaps(outputs: np.ndarray, hits: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each cell with rows: its share, and mean output minus mean target."""
    rows, gap = np.bincount(cell), np.bincount(cell, outputs - hits)
    kept = rows > 0
    return rows[kept] / len(cell), gap[kept] / rows[kept]


def _l1(outputs: np.ndarray, hits: np.ndarray, cell: np.ndarray) -> float:
    share, gap = _gaps(outputs, hits, cell)
    return float(share @ np.abs(gap))


def _l2(outputs: np.ndarray, hits: np.ndarray, cell: np.ndarray) -> float:
    share, gap = _gaps(outputs, hits, cell)
    return float(share @ gap**2)


def _smooth(outputs: np.ndarray, hits: np.ndarray) -> float:
    """SmoothECE (Blasiok & Nakkiran 2023): fixed point of the smoothed residual, by bisection."""
    cell = _width_bins(outputs, CELLS)
    waves = dct(np.bincount(cell, hits - outputs, CELLS) / len(outputs), norm="ortho")
    frequency = np.pi * np.arange(CELLS)

    def error(width: float) -> float:
        return float(
            np.abs(idct(waves * np.exp(-((frequency * width) ** 2) / 2), norm="ortho")).sum()
        )

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return low


def _kernel_limit(outputs: np.ndarray, hits: np.ndarray) -> float:
    """Limit of the Nadaraya-Watson plug-in of the Brier score at its fixed bandwidth."""
    cell = _width_bins(outputs, CELLS)
    rows, predicted, right = (np.bincount(cell, w, CELLS) for w in (None, outputs, hits))
    x = (np.arange(CELLS) + 0.5) / CELLS
    weights = np.exp(-(((x[:, None] - x) / BANDWIDTH) ** 2) / 2)
    kept = rows > 0
    gap = (weights @ right)[kept] / (weights @ rows)[kept] - predicted[kept] / rows[kept]
    return float((rows[kept] * gap**2).sum() / rows.sum())


def _divergences(outputs: np.ndarray, hits: np.ndarray) -> tuple[float, float]:
    """E d(E[target | output], output) without smoothing, by Brier score and log loss.

    Computed from soft labels in cells of about 200 rows.
    """
    cell = _mass_bins(outputs, max(1, len(outputs) // 200))
    rows = np.bincount(cell)
    predicted, right = (
        np.bincount(cell, outputs) / rows,
        (np.bincount(cell, hits) / rows).clip(0, 1),
    )
    share = rows / len(outputs)
    divergence = sum(
        xlogy(b, b) - xlogy(b, a) for a, b in ((predicted, right), (1 - predicted, 1 - right))
    )
    return float(share @ (predicted - right) ** 2), float(share @ divergence)


def _line(z: np.ndarray, hits: np.ndarray) -> tuple[float, float]:
    """Cox intercept and slope, by Newton's method."""
    design, theta = np.column_stack([np.ones(len(z)), z]), np.zeros(2)
    for _ in range(15):
        mean = 1 / (1 + np.exp(-design @ theta))
        theta = theta + np.linalg.solve(
            (design.T * (mean * (1 - mean))) @ design, design.T @ (hits - mean)
        )
    return float(theta[0]), float(theta[1])


def block_values(p: np.ndarray, truth: np.ndarray, other: np.ndarray | None) -> dict[str, float]:
    """All population values, estimated from one block of the reference sample."""
    priors, found = truth.mean(axis=0), {}
    for name, score in SCORES.items():
        found[name] = score(p, truth)
        found[f"{name} normalised"] = found[name] / _naive(name, priors)
    outputs, hits = top_label(p, truth)
    found |= _event_values(outputs, hits)
    found["accuracy"] = 1 - found["0-1"]
    found["sharpness gap"] = found["brier"] - found["kernel brier"]
    found["joint divergence"] = float(((p - truth) ** 2).sum(axis=1).mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        found["joint log divergence"] = float(
            (xlogy(truth, truth) - xlogy(truth, p)).sum(axis=1).mean()
        )
    if p.shape[1] > 2:
        pair = among(2, p, truth)
        found["top 2"] = _l1(*pair, _width_bins(pair[0]))
    if p.shape[1] <= 10:
        columns = range(p.shape[1])
        found["classwise"] = float(
            np.mean([_l1(p[:, k], truth[:, k], _width_bins(p[:, k])) for k in columns])
        )
        found["classwise rms"] = float(
            np.sqrt(np.mean([_l2(p[:, k], truth[:, k], _mass_bins(p[:, k])) for k in columns]))
        )
    if p.shape[1] == 2 and p.min() > 0 and p[:, 1].std() > 0:
        intercept, slope = _line(np.log(p[:, 1] / p[:, 0]), truth[:, 1])
        found |= {"intercept": intercept, "slope": slope}
    if other is not None:
        second = block_values(other, truth, None)
        found |= {
            f"difference {name}": second[name] - found[name]
            for name in list(found)
            if name in second
        }
    return found


def _event_values(outputs: np.ndarray, hits: np.ndarray) -> dict[str, float]:
    width, mass = _width_bins(outputs), _mass_bins(outputs)
    brier, log = _divergences(outputs, hits)
    return {
        "ece": _l1(outputs, hits, width),
        "ace": _l1(outputs, hits, mass),
        "squared": _l2(outputs, hits, mass),
        "rms": float(np.sqrt(_l2(outputs, hits, mass))),
        "smooth": _smooth(outputs, hits),
        "kernel brier": brier,
        "kernel log": log,
        "kernel brier limit": _kernel_limit(outputs, hits),
    }


@cache
def population(name: str) -> dict[str, Truth]:
    """Population values of a world, averaged over blocks of its reference sample."""
    world = worlds()[name]
    classes = world.draw(10, np.random.default_rng(0)).p.shape[1]
    size = max(2_000, BLOCK_VALUES // classes)
    blocks = []
    for number in range(BLOCKS):
        drawn = world.draw(size, np.random.default_rng([2**31 + number, zlib.crc32(name.encode())]))
        blocks.append(block_values(drawn.p, drawn.truth, drawn.other))
    found = {}
    for key in blocks[0]:
        values = np.array([block[key] for block in blocks])
        found[key] = Truth(float(values.mean()), float(values.std(ddof=1) / np.sqrt(BLOCKS)))
    return found | {key: Truth(value) for key, value in world.values.items()}


@cache
def reference_rows(name: str, n: int) -> Draw:
    """Fresh rows on which fitted calibrators are evaluated."""
    return worlds()[name].draw(n, np.random.default_rng([2**31 + 999, zlib.crc32(name.encode())]))
