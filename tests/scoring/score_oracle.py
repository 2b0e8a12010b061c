"""Every score once more, a row at a time, in plain Python: what the tests compare the library
with."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

import probaudit as pb


def odd_costs(classes: int) -> pb.Cost:
    """A cost matrix that is not square, has no zero diagonal, and under which no two decisions are
    equal."""
    decisions = 3 if classes > 100 else classes + 2
    k, j = np.mgrid[:classes, :decisions]
    return pb.Cost(((3 * k + 5 * j + k * j) % 7) / 4 + (k + 1) * (j + 1) / 64)


SCORES = {
    "log": lambda classes: pb.Log(),
    "brier": lambda classes: pb.Brier(),
    "zero-one": pb.Cost.zero_one,
    "reject": lambda classes: pb.Cost.zero_one(classes, reject=0.1),
    "imbalanced": pb.Cost.imbalanced,
    "odd costs": odd_costs,
    "Beta(1,1)": lambda classes: pb.RiskWeighted(1, 1),
    "Beta(2,2)": lambda classes: pb.RiskWeighted(2, 2),
    "Beta(.5,1.5)": lambda classes: pb.RiskWeighted(0.5, 1.5),
    "Beta(3,.7)": lambda classes: pb.RiskWeighted(3, 0.7),
}


def scores_for(classes):
    """The scores that exist for so many classes. A square cost matrix of thousands of classes is
    left out."""
    return [
        name
        for name in SCORES
        if not (name.startswith("Beta") and classes != 2)
        and not (name in ("zero-one", "reject", "imbalanced") and classes > 999)
    ]


def estimate(score, y, p, **options):
    """The library's function of (y_true, y_proba) for a score."""
    match score:
        case pb.Log():
            return pb.log_score(y, p, **options)
        case pb.Brier():
            return pb.brier_score(y, p, **options)
        case pb.Cost():
            return pb.bayes_risk(y, p, score, **options)
        case pb.RiskWeighted(a=a, b=b):
            return pb.risk_weighted_score(y, p, a=a, b=b, **options)
    raise AssertionError(score)


@cache
def beta_tail(q: float, a: float, b: float) -> float:
    """The integral over (q, 1) of W(t) / t: what the second class costs when its probability is
    q."""
    if q == 0 and a <= 1:
        return math.inf

    # t = e^u turns the neighbourhood of zero, down to the least number, into an interval of length
    # 745.
    def weight(u):
        return math.exp(u * (a - 1)) * (-math.expm1(u)) ** (b - 1)

    def weight_near_one(u):  # without the factor (-u)^(b - 1), which is left to quad
        return math.exp(u * (a - 1)) * ((-math.expm1(u) / -u) ** (b - 1) if u else 1.0)

    low = max(math.log(q), -745.2) if q else -2000.0
    points = [low, *(x for x in (-100, -20, -4, -1) if x > low), 0.0]
    options = {"epsabs": 0, "epsrel": 1e-13, "limit": 200, "full_output": 1}
    last = quad(weight_near_one, points[-2], 0, weight="alg", wvar=(0, b - 1), **options)[0]
    parts = [quad(weight, x, y, **options)[0] for x, y in pairwise(points[:-1])]
    return 2 ** (a + b - 2) * math.fsum([*parts, last]) if q < 1 else 0.0


def row_score(score, q, c) -> float:
    """S(q, c) for one forecast."""
    q = [float(x) for x in q]
    match score:
        case pb.Log():
            return -math.log(q[c]) + 0.0 if q[c] else math.inf
        case pb.Brier():
            return math.fsum((x - (k == c)) ** 2 for k, x in enumerate(q))
        case pb.Cost():
            return float(score.matrix[c, decision(score.matrix, q)])
        case pb.RiskWeighted(a=a, b=b):
            return beta_tail(q[1], a, b) if c == 1 else beta_tail(q[0], b, a)
    raise AssertionError(score)


def decision(matrix, q) -> int:
    expected = [
        math.fsum(x * m for x, m in zip(q, column, strict=True)) for column in matrix.T.tolist()
    ]
    return expected.index(min(expected))


def row_scores(score, y, p):
    return np.array(
        [row_score(score, q, c) for q, c in zip(np.asarray(p, np.float64), y, strict=True)]
    )


def mean_score(score, y, p, w=None) -> float:
    s = row_scores(score, y, p).tolist()
    w = np.ones(len(s)) if w is None else np.asarray(w, np.float64)
    w = (w / w.max()).tolist()
    return (
        math.inf
        if math.inf in s
        else math.fsum(a * b for a, b in zip(w, s, strict=True)) / math.fsum(w)
    )


def two_columns(p):
    """The probabilities of both classes, where only that of the second is given."""
    second = np.asarray(p, np.float64)
    return np.stack([1 - second, second], axis=-1)
