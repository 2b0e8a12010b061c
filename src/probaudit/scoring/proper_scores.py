"""Log score, Brier score and Bayes risk, with 95% intervals."""

from __future__ import annotations

from typing import Any, Unpack

from ..choices.scores import Brier, Cost, Log, RankedProbability, Score
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.good_rows import survey, weights_of
from ..engines.memory import sample_of, summary
from ..errors import InputError
from ..estimate import Estimate
from ..states import Plan, Summary
from .clusters import ClusteredRows
from .expected_scores import estimate_score
from .row_scores import class_sums, row_scores


@takes_row_options
def log_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean logarithmic score -log p_y, the cross-entropy of the forecasts (Ferrer & Ramos 2025,
    Eq. 8).

    y_true : labels: column numbers 0..K-1, or members of `classes`. Or `Predictions`, as `read`
        returns them, without `y_proba`.
    y_proba : [n, K] probabilities, or [n] for the second of two classes.
    normalize : divide by the score of the base-rate forecast, which predicts the class frequencies
        in every row. A value above 1 is worse than that forecast.
    priors : class frequencies to assume in place of those in the data (Ferrer & Ramos 2025, Eq.
        36).
    threads : the number of threads; all cores by default. The result does not depend on it.
    options : see `RowOptions`.

    A row whose true class has probability 0 makes the score infinite; `infinite_rows` counts such
    rows. Probabilities are not clipped.

    >>> log_score([1, 0, 1], [0.9, 0.2, 0.4])
    0.414932 [0, 14.6707]  mean log loss, n = 3
    >>> log_score(["no", "yes"], [[1.0, 0.0], [1.0, 0.0]], classes=["no", "yes"]).infinite_rows
    1
    """
    return _score(
        Log(), y_true, y_proba, options, normalize=normalize, priors=priors, threads=threads
    )


@takes_row_options
def brier_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean Brier score, sum_k (p_k - [k = y])^2, from 0 to 2. Arguments as in `log_score`.

    For two classes this is twice the familiar mean of (p - y)^2. Ferrer & Ramos 2025, Eq. 9 and 37,
    divides by K.

    >>> round(brier_score([1, 0, 1], [0.9, 0.2, 0.4]), 6)
    0.273333
    """
    return _score(
        Brier(), y_true, y_proba, options, normalize=normalize, priors=priors, threads=threads
    )


@takes_row_options
def bayes_risk(
    y_true: Any,
    y_proba: Any = None,
    costs: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean cost of Bayes decisions based on the probabilities (Ferrer & Ramos 2025, Eq. 7).
    Other arguments as in `log_score`.

    costs : matrix [K, M]: the cost of decision j if class i is true. Decisions need not be classes:
        a column of equal costs is a reject option. Each row gets the decision of least expected
        cost; ties go to the first.
    normalize : divide by the cost of the best constant decision.

    >>> round(bayes_risk([1, 0, 1], [0.9, 0.2, 0.4], [[0, 1, 0.1], [1, 0, 0.1]]), 6)
    0.066667
    """
    if costs is None:
        raise InputError("costs", "must be a matrix [classes, decisions]")
    cost = costs if isinstance(costs, Cost) else Cost(costs)
    return _score(
        cost, y_true, y_proba, options, normalize=normalize, priors=priors, threads=threads
    )


@takes_row_options
def ranked_probability_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    normalize: bool = False,
    priors: Any = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The mean ranked probability score of ordered classes (Epstein 1969), from 0 to K - 1. The
    order is that of the columns. Other arguments as in `log_score`.

    Some programs divide by K - 1; for two classes it is the mean of (p - y)^2.

    >>> float(ranked_probability_score([0, 2], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]))
    0.25
    """
    rows, score = rows_of(y_true, y_proba, **options), RankedProbability()
    if rows.pairs:
        raise InputError("y_proba", "must have a probability for each class", "a confidence")
    found = summary(rows, Plan.of(rows))
    good = survey(rows).good
    values = row_scores(rows, good, {"score": score})["score"]
    sums = class_sums(values, rows.codes[good], weights_of(rows, good), rows.n_classes)
    estimate = estimate_score(
        found,
        score,
        normalize=normalize,
        priors=priors,
        sums=sums,
        clustered=clustered_sample(rows, found),
    )
    if not normalize:
        estimate.high = min(estimate.high, rows.n_classes - 1.0)
    return estimate


def _score(
    score: Score,
    y_true: Any,
    y_proba: Any,
    options: RowOptions,
    *,
    normalize: bool,
    priors: Any,
    threads: int | None,
) -> Estimate:
    rows = rows_of(y_true, y_proba, **options)
    costs = {"costs": score} if isinstance(score, Cost) else {}
    surveyed = not costs and "survey" in rows.memo  # by the same pass
    sums = (
        survey(rows).summary if surveyed else summary(rows, Plan.of(rows, costs), threads=threads)
    )
    return estimate_score(
        sums, score, normalize=normalize, priors=priors, clustered=clustered_sample(rows, sums)
    )


def clustered_sample(rows: Predictions, totals: Summary) -> ClusteredRows | None:
    """The rows from which the design effect is estimated, if they have clusters: a sample, as in an
    audit, if there are many."""
    if rows.clusters is None:
        return None
    sample, places = sample_of(rows)
    good = survey(sample).good
    return ClusteredRows(sample, good, 1.0 if places is None else len(good) / totals.rows)
