"""Simulated data with known truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .choices.scores import Log
from .errors import InputError

Link = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class GaussianPosteriors:
    """Labels, and posteriors of the same inputs: calibrated, and miscalibrated in three known ways.
    Arrays [n, K].

    cal : the true posteriors. mcp : with wrong priors. mcs : with scaled log probabilities. mcps :
        both.
    """

    y: np.ndarray
    cal: np.ndarray
    mcp: np.ndarray
    mcs: np.ndarray
    mcps: np.ndarray
    priors: np.ndarray


def gaussian_posteriors(
    n: int = 2000,
    classes: int = 2,
    *,
    prior: float = 0.8,
    variance: float = 0.15,
    distance: float = 1.0,
    scale: float = 5.0,
    wrong_prior: float = 0.9,
    seed: int = 0,
) -> GaussianPosteriors:
    """Gaussian classes with a common variance and equidistant means (Ferrer & Ramos 2025, Section 3
    and Appendix C).

    Section 3 and the published binary figures use a distance of 1, the one-hot means of Appendix C
    a distance of sqrt(2).

    prior : of the first class; the others share the rest. Each class has its prior times n rows,
        rounded, so that the total may differ from n by a few.
    variance : of each coordinate. A larger variance makes the problem harder.
    distance : between any two means.
    scale : of the log probabilities in mcs and mcps; above 1 overconfident, below 1 underconfident.
    wrong_prior : of the last class in mcp and mcps.

    >>> world = gaussian_posteriors(1000, 3, seed=1)
    >>> world.cal.shape, bool(abs(world.cal.mean(axis=0) - world.priors).max() < 0.02)
    ((1000, 3), True)
    """
    if classes < 2:
        raise InputError("classes", "must be at least 2", classes)
    for name, value in (("prior", prior), ("wrong_prior", wrong_prior)):
        if not 0 < value < 1:
            raise InputError(name, "must lie inside (0, 1)", value)
    for name, value in (("variance", variance), ("distance", distance), ("scale", scale)):
        if not 0 < value < np.inf:
            raise InputError(name, "must be positive and finite", value)
    rng = np.random.default_rng(seed)
    priors = np.full(classes, (1 - prior) / (classes - 1))
    priors[0] = prior
    counts = np.rint(priors * n).astype(int)
    if counts.sum() < 1:
        raise InputError("n", "must be large enough for at least one row", n)
    y = np.repeat(np.arange(classes), counts)
    means = np.eye(classes) * distance / np.sqrt(2)
    x = means[y] + rng.normal(scale=np.sqrt(variance), size=(len(y), classes))
    order = rng.permutation(len(y))
    y, x = y[order], x[order]
    return gaussian_systems(y, x, means, priors, variance, scale, wrong_prior)


def gaussian_systems(
    y: np.ndarray,
    x: np.ndarray,
    means: np.ndarray,
    priors: np.ndarray,
    variance: float,
    scale: float,
    wrong_prior: float,
) -> GaussianPosteriors:
    """The posteriors of given inputs x [n, K] of Gaussian classes, as in `gaussian_posteriors`."""
    classes = len(priors)
    # The squared norms and the normalising constant are the same for every class and cancel.
    likelihood = x @ means.T / variance
    wrong = np.full(classes, (1 - wrong_prior) / (classes - 1))
    wrong[-1] = wrong_prior
    cal, mcp = _softmax(likelihood + np.log(priors)), _softmax(likelihood + np.log(wrong))
    return GaussianPosteriors(y, cal, mcp, _sharpen(cal, scale), _sharpen(mcp, scale), priors)


def _softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _sharpen(p: np.ndarray, scale: float) -> np.ndarray:
    return _softmax(-scale * Log().by_class(p))


@dataclass(frozen=True)
class GroupedWorld:
    """Two-class data whose scores are calibrated but differ from the true probabilities
    (Perez-Lebel et al. 2023, Appendix B).

    features [n, d], labels y, scores (of class 1), truth (the true probability of class 1), group
    (if there are groups).
    grouping_loss, log_grouping_loss : of the population: E (truth - score)^2, and the mean binary
        Kullback-Leibler divergence of the score from the truth.
    """

    features: np.ndarray
    y: np.ndarray
    scores: np.ndarray
    truth: np.ndarray
    grouping_loss: float
    log_grouping_loss: float
    group: np.ndarray | None = None


def _normal_nodes(*breaks: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights for expectations over a standard normal variable, piecewise
    between the given breaks."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    ends = np.array([-9.0, *breaks, 9.0])
    half, middle = np.diff(ends)[:, None] / 2, ((ends[1:] + ends[:-1]) / 2)[:, None]
    x = (middle + half * nodes).ravel()
    w = (half * weights).ravel() * np.exp(-(x**2) / 2)
    return x, w / w.sum()


def _grouping_losses(
    scores: np.ndarray, truth: np.ndarray, weight: np.ndarray
) -> tuple[float, float]:
    """The grouping losses of the Brier score and the log loss, as weighted sums."""
    log = Log().one_dimensional()
    return float((weight * (truth - scores) ** 2).sum()), float(
        (weight * log.divergence(truth, scores)).sum()
    )


def linked_scores(
    n: int = 10_000,
    link: Link | None = None,
    *,
    other: Link | None = None,
    dimension: int = 1,
    seed: int = 0,
) -> GroupedWorld:
    """Calibrated scores with a given link to the true probability (Perez-Lebel et al. 2023,
    Appendix B.1).

    The first feature x is normal, and the score 2 P(X > |x|) is the same for x and -x. The truth is
    h(score) where x > 0, and 2 score - h(score) where x < 0. Other features are noise.

    link : h, with max(0, 2s - 1) <= h(s) <= min(1, 2s). By default h differs from s by nine tenths
        of what leaves decisions unchanged: accuracy is optimal, although hardly any score equals
        the true probability (Figure 10).
    other : g, the truth where x < 0, if it is not 2s - h(s). Then s must lie between h(s) and g(s),
        and x > 0 has the probability (s - g) / (h - g), which keeps scores calibrated (Figure 10,
        right).

    >>> world = linked_scores(1000, lambda s: np.minimum(1, 2 * s))
    >>> round(world.grouping_loss, 6)
    0.083333
    """
    from scipy.special import ndtr

    def farthest(s: np.ndarray) -> np.ndarray:
        return np.asarray(s + 0.9 * np.minimum(np.minimum(s, 1 - s), np.abs(0.5 - s)))

    h = farthest if link is None else link
    g = (lambda s: 2 * s - h(s)) if other is None else other
    middles = (np.arange(100_000) + 0.5) / 100_000  # scores are uniform
    both = _checked_links(middles, h, g, "link" if other is None else "other")
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, _at_least(dimension, 1, "dimension")))
    scores = 2 * ndtr(-np.abs(x[:, 0]))
    if other is not None:
        right = rng.random(n) < _share_above(scores, h(scores), g(scores))
        x[:, 0] = np.where(right, 1, -1) * np.abs(x[:, 0])
    truth = np.clip(np.where(x[:, 0] > 0, h(scores), g(scores)), 0, 1)
    share = _share_above(middles, *both) / len(middles)
    losses = _grouping_losses(middles, both, np.stack([share, 1 / len(middles) - share]))
    return GroupedWorld(x, _bernoulli(rng, truth), scores, truth, *losses)


def _checked_links(s: np.ndarray, h: Link, g: Link, argument: str) -> np.ndarray:
    """h(s) and g(s), or an error that names the argument."""
    both = np.empty((2, len(s)))
    for k, (name, link) in enumerate((("link", h), (argument, g))):
        if np.shape(found := link(s)) != s.shape:
            raise InputError(name, "must return an array like its argument", np.shape(found))
        both[k] = found
    if not (np.min(both) >= -1e-12 and np.max(both) <= 1 + 1e-12):
        rule = "must give probabilities; without `other`, max(0, 2s - 1) <= h(s) <= min(1, 2s)"
        raise InputError(argument, rule, f"{np.min(both):.6g} to {np.max(both):.6g}")
    if ((both[0] - s) * (s - both[1]) < -1e-12).any():
        raise InputError(argument, "must have s between link(s) and other(s)")
    return np.clip(both, 0, 1)


def _share_above(s: np.ndarray, above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The probability of the first of two values whose mean is s; 1/2 if they are equal."""
    apart = above != below
    share = np.where(apart, s - below, 0.5) / np.where(apart, above - below, 1.0)
    return np.asarray(np.clip(share, 0, 1))


def neural_outputs(
    n: int = 10_000,
    dimension: int = 2,
    *,
    perturbation: Link | None = None,
    accurate: bool = False,
    spread: float = 10.0,
    seed: int = 0,
) -> GroupedWorld:
    """A calibrated last layer, with heterogeneity orthogonal to its weights (Perez-Lebel et al.
    2023, Appendix B.2).

    The score is a sigmoid of w'x. The true probability is the score + psi(v'x) times its distance
    to 0 or 1, with v orthogonal to w. Two dimensions and the default arguments give the data of
    Figure 4: w = (1, 1), v = (-1, 1) / sqrt(2).

    perturbation : psi, odd, within [-1, 1]; by default tanh(u / 2). With psi = 0 there is no
        grouping loss.
    accurate : keep score and true probability on the same side of 1/2, so that decisions are
        optimal.
    spread : the variance along w; it is 1 in orthogonal directions.

    >>> round(neural_outputs(10).grouping_loss, 6)
    0.005862
    """
    psi = (lambda u: np.tanh(u / 2)) if perturbation is None else perturbation
    d = _at_least(dimension, 2, "dimension")
    if not 0 < spread < np.inf:
        raise InputError("spread", "must be positive and finite", spread)
    nodes, mass = _normal_nodes(0.0)
    pushed = np.asarray(psi(nodes), np.float64)
    if (
        pushed.shape != nodes.shape
        or not (np.abs(pushed) <= 1).all()
        or np.abs(pushed + pushed[::-1]).max() > 1e-9
    ):
        raise InputError("perturbation", "must be odd and lie within [-1, 1]")
    along, across = np.zeros(d), np.zeros(d)
    along[:2], across[:2] = 1 / np.sqrt(2), (-1 / np.sqrt(2), 1 / np.sqrt(2))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x += np.outer(x @ along, along) * (np.sqrt(spread) - 1)

    def room(s: np.ndarray) -> np.ndarray:
        least = np.minimum(s, 1 - s)
        return np.minimum(least, np.abs(0.5 - s)) if accurate else least

    scores = _sigmoid(np.sqrt(2) * (x @ along))
    truth = np.clip(scores + psi(x @ across) * room(scores), 0, 1)
    quarter = np.log(3) / np.sqrt(2 * spread)  # where the score is 1/4 or 3/4
    places, density = _normal_nodes(-quarter, 0.0, quarter)
    s = _sigmoid(np.sqrt(2 * spread) * places)[:, None]
    losses = _grouping_losses(s, np.clip(s + room(s) * pushed, 0, 1), density[:, None] * mass)
    return GroupedWorld(x, _bernoulli(rng, truth), scores, truth, *losses)


def unfair_groups(
    n: int = 10_000,
    effects: Mapping[str, float] | None = None,
    *,
    shares: Sequence[float] | None = None,
    noise_features: int = 2,
    seed: int = 0,
) -> GroupedWorld:
    """Scores that are calibrated overall, but too low for some groups and too high for others.

    Scores are uniform. The true probability in a group with effect e is score + e min(score, 1 -
    score). Effects are centred, so that they cancel over the population.

    effects : of each group, by name. shares : of the groups in the population; equal by default.

    >>> world = unfair_groups(1000, {"a": 0.5, "b": -0.5})
    >>> round(world.grouping_loss, 6)
    0.020833
    """
    effects = {"a": 0.6, "b": 0.0, "c": -0.6} if effects is None else dict(effects)
    share = (
        np.full(len(effects), 1 / max(1, len(effects)))
        if shares is None
        else np.asarray(shares, np.float64)
    )
    if (
        not effects
        or share.shape != (len(effects),)
        or (share < 0).any()
        or abs(share.sum() - 1) > 1e-9
    ):
        raise InputError("shares", "must have one share for each group, with sum 1", share.tolist())
    effect = np.array(list(effects.values()), np.float64)
    effect = effect - share @ effect
    if not (np.abs(effect) <= 1).all():
        raise InputError(
            "effects", "must lie within [-1, 1] after centring", effect.round(6).tolist()
        )
    rng = np.random.default_rng(seed)
    number = rng.choice(len(effects), n, p=share)
    scores = rng.random(n)
    truth = scores + effect[number] * np.minimum(scores, 1 - scores)
    middles = (np.arange(100_000) + 0.5) / 100_000
    losses = _grouping_losses(
        middles,
        middles + effect[:, None] * np.minimum(middles, 1 - middles),
        share[:, None] / len(middles),
    )
    features = np.column_stack([number, rng.standard_normal((n, noise_features))])
    return GroupedWorld(
        features,
        _bernoulli(rng, truth),
        scores,
        truth,
        *losses,
        group=np.array(list(effects))[number],
    )


@dataclass(frozen=True)
class GroupedClasses:
    """Multiclass data whose scores are calibrated but differ from the true probabilities.

    features [n, d], labels y, scores and truth [n, K], group. grouping_loss : of the population, E
    |truth - score|^2, summed over classes.
    """

    features: np.ndarray
    y: np.ndarray
    scores: np.ndarray
    truth: np.ndarray
    group: np.ndarray
    grouping_loss: float


def swapped_classes(
    n: int = 10_000,
    classes: int = 3,
    *,
    effect: float = 0.85,
    noise_features: int = 2,
    seed: int = 0,
) -> GroupedClasses:
    """Two hidden groups that differ in the two least probable classes only. With three classes the
    top label does not reveal them.

    Scores are uniform on the simplex. A share of the smallest probability moves between these two
    classes: in group 0 to the later column, in group 1 to the earlier one. The grouping loss is 4
    effect^2 / (K^3 (K + 1)).

    effect : the share of the smallest probability that moves.

    >>> world = swapped_classes(1000)
    >>> round(world.grouping_loss, 4), bool(np.allclose(world.truth.sum(axis=1), 1))
    (0.0268, True)
    """
    K = _at_least(classes, 2, "classes")
    if not 0 <= effect <= 1:
        raise InputError("effect", "must lie in [0, 1]", effect)
    rng = np.random.default_rng(seed)
    scores, group = rng.dirichlet(np.ones(K), n), rng.integers(0, 2, n)
    least = np.sort(np.argsort(scores, axis=1)[:, :2], axis=1)
    moved = effect * scores.min(axis=1) * (1 - 2 * group)
    truth, rows = scores.copy(), np.arange(n)
    truth[rows, least[:, 0]] -= moved
    truth[rows, least[:, 1]] += moved
    y = np.minimum((rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1), K - 1)
    features = np.column_stack([group, rng.standard_normal((n, noise_features))])
    return GroupedClasses(features, y, scores, truth, group, 4 * effect**2 / (K**3 * (K + 1)))


def _sigmoid(z: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + e), e / (1 + e))


def _bernoulli(rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    return (rng.random(len(truth)) < truth).astype(np.int64)


def _at_least(value: int, least: int, argument: str) -> int:
    if value < least:
        raise InputError(argument, f"must be at least {least}", value)
    return int(value)
