"""Calibrators compared over many random splits into calibration and test rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..data.arrays import data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.keywords import with_known_keywords
from ..data.predictions import Predictions
from ..errors import InputError
from ..scoring.proper_scores import brier_score, log_score
from ..text import MISSING, ShownAsTable, TextTable, counted, number, p_value
from .outputs import Outputs
from .selection import named_calibrators

if TYPE_CHECKING:
    from .base import Calibrator

# From calibration rows and test rows to the probabilities of the test rows, [n, K].
Procedure = Callable[[Predictions, Predictions], np.ndarray]
Metric = Callable[[Predictions], float]

METRICS: dict[str, Metric] = {
    "log loss": log_score,
    "Brier score": brier_score,
    "ECE": calibration_error,
}


@dataclass(frozen=True)
class SplitDifference:
    """The mean difference of a metric between two methods over the splits.

    low, high, t, p : the 95% interval and the test of the corrected resampled t-test.
    naive_t, naive_p : of the paired t-test, which takes the splits as independent.
    """

    value: float
    low: float
    high: float
    t: float
    p: float
    naive_t: float
    naive_p: float


@with_known_keywords
def resampled_t_test(differences: Any, test_to_train: float) -> SplitDifference:
    """Whether a mean difference over random splits is 0 (Nadeau & Bengio 2003, section 3).

    differences : of a metric between two methods, one for each split.
    test_to_train : the number of test rows divided by the number of training rows.

    Splits share rows, so their differences are positively correlated, and the variance s^2 / R of
    the paired t-test is too small: more splits make any difference significant. The corrected
    variance is (1 / R + test_to_train) s^2. It is right for differences that come from the choice
    of test rows, and too large, so that the test is conservative, for those that come from the fit.

    >>> found = resampled_t_test([0.01, 0.02, 0.03, 0.02], test_to_train=1.0)
    >>> round(found.naive_p, 3), round(found.p, 3)
    (0.016, 0.116)
    """
    from scipy.stats import t as student

    values = np.asarray(differences, np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise InputError("differences", "must have two values or more", f"shape {values.shape}")
    if np.ndim(test_to_train) or not 0 < test_to_train < np.inf:
        found = type(test_to_train).__name__ if np.ndim(test_to_train) else test_to_train
        rule = "must be a positive, finite number"
        way_out = ("divide the number of test rows by that of training rows",)
        raise InputError("test_to_train", rule, found, way_out=way_out)
    if not np.isfinite(values).all():
        return SplitDifference(*[np.nan] * 7)
    count, mean, variance = len(values), float(values.mean()), float(values.var(ddof=1))

    def test(factor: float) -> tuple[float, float, float]:
        """t, p and half the width of the interval for the variance factor * s^2."""
        error = float(np.sqrt(factor * variance))
        t = mean / error if error else np.copysign(np.inf, mean) if mean else 0.0
        return t, float(2 * student.sf(abs(t), count - 1)), error * student.ppf(0.975, count - 1)

    (t, p, half), (naive_t, naive_p, _) = test(1 / count + test_to_train), test(1 / count)
    return SplitDifference(mean, mean - half, mean + half, t, p, naive_t, naive_p)


@dataclass(frozen=True, eq=False, repr=False)
class RepeatedSplits(ShownAsTable):
    """The metrics of several methods on the test rows of many random splits.

    values : [methods, metrics, splits].
    baseline : the method that the table compares the others with.
    train_rows, test_rows : the mean numbers of rows of a split.
    test_to_train : test rows divided by calibration rows; of clusters, if rows have them.
    """

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    baseline: str
    values: np.ndarray
    train_rows: int
    test_rows: int
    test_to_train: float

    def of(self, method: str, metric: str) -> np.ndarray:
        """A metric of a method in each split."""
        return np.asarray(
            self.values[
                _place(method, self.methods, "method"), _place(metric, self.metrics, "metric")
            ]
        )

    def difference(self, method: str, metric: str, baseline: str = "") -> SplitDifference:
        """A method minus another, `self.baseline` unless named: the mean over splits, and tests."""
        values, others = self.of(method, metric), self.of(baseline or self.baseline, metric)
        finite = np.isfinite(values) & np.isfinite(others)
        differences = np.subtract(values, others, where=finite, out=np.full(len(values), np.nan))
        return resampled_t_test(differences, self.test_to_train)

    def table(self) -> dict[str, list[Any]]:
        """A row for each metric and method, as columns for any data frame."""
        rows = []
        for metric in self.metrics:
            for method in self.methods:
                values = self.of(method, metric)
                finite = bool(np.isfinite(values).all())
                row = {
                    "metric": metric,
                    "method": method,
                    "mean": float(values.mean()),
                    "sd": float(values.std(ddof=1)) if finite else np.nan,
                }
                against = self.difference(method, metric) if method != self.baseline else None
                for name in ("value", "low", "high", "p", "naive_p"):
                    found = np.nan if against is None else getattr(against, name)
                    row["difference" if name == "value" else name] = found
                rows.append(row)
        return {name: [row[name] for row in rows] for name in rows[0]}

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        return data_frame(self.table())

    def _text_table(self) -> TextTable:
        columns = self.table()
        rows = []
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            shown = np.isfinite(row["difference"])
            rows.append(
                [
                    row["metric"],
                    row["method"],
                    number(row["mean"]),
                    number(row["difference"]) if shown else MISSING,
                    f"{number(row['low'])} to {number(row['high'])}" if shown else MISSING,
                    p_value(row["p"]),
                    p_value(row["naive_p"]),
                ]
            )
        splits = self.values.shape[2]
        return TextTable(
            f"{splits} random splits: {counted(self.train_rows)} for calibration,"
            f" {counted(self.test_rows)} for tests",
            ("", "method", "mean", f"minus {self.baseline}", "95% interval", "p", "naive p"),
            rows,
            "p and interval: corrected for rows that splits share (Nadeau & Bengio 2003); naive p:"
            " paired t-test",
        )


@takes_row_options
def repeated_splits(
    y_true: Any,
    y_proba: Any = None,
    *,
    methods: Sequence[str] | Mapping[str, Calibrator | Procedure],
    baseline: str = "",
    metrics: Mapping[str, Metric] | None = None,
    splits: int = 100,
    share: float = 0.5,
    features: Any = None,
    groups: Any = None,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> RepeatedSplits:
    """Compare calibrators over random splits of the rows: each split fits them to some rows and
    measures them on the others. Differences are tested with the corrected resampled t-test (Nadeau
    & Bengio 2003), beside the paired t-test that papers report.

    methods : method names (`calibrators.registry.METHODS`); or, by name, calibrators and functions
        f(train, test) of `Predictions` that return the probabilities of the test rows, [n, K].
    baseline : the name of the method to compare with; the first unless given.
    metrics : functions by name of the test rows after calibration, as `Predictions` with their
        features and columns; log loss, Brier score and ECE unless given.
    splits : their number. share : of the rows, or of the clusters, that calibrate.
    features, groups : as in `calibration_loss`.
    options : see `RowOptions`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 3)
    >>> found = repeated_splits(
    ...     world.y, world.mcs, methods=["identity", "temperature"], splits=10, share=0.2
    ... )
    >>> found.difference("temperature", "log loss").p < 0.001
    True
    """
    from .base import Calibrator

    if not isinstance(splits, (int, np.integer)) or splits < 2:
        raise InputError("splits", "must be a whole number of at least 2", repr(splits))
    if not 0 < share < 1:
        raise InputError("share", "must lie between 0 and 1", share)
    predictions = rows_of(y_true, y_proba, features=features, **options)
    outputs = Outputs.of(predictions, groups)
    chosen = _checked_methods(methods, outputs, features=features, groups=groups)
    measured = METRICS if metrics is None else metrics
    if not measured:
        raise InputError("metrics", "must have at least one metric", "none")
    if baseline:
        _place(baseline, tuple(chosen), "baseline")
    units = np.arange(len(outputs.codes)) if outputs.clusters is None else outputs.clusters
    count = int(units.max()) + 1
    first = round(share * count)
    if not 0 < first < count:
        rule = f"must leave rows on both sides of a split of {count}"
        raise InputError("share", rule, share)
    values, sizes = np.empty((len(chosen), len(measured), splits)), np.empty(splits)
    for split in range(splits):
        order = np.random.default_rng((seed, split + 1)).permutation(count)
        inside = np.isin(units, order[:first])
        train, test = np.flatnonzero(inside), np.flatnonzero(~inside)
        sizes[split] = len(train)
        parts = predictions.take(outputs.rows[train]), predictions.take(outputs.rows[test])
        for m, method in enumerate(chosen.values()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the metrics show whether a fit went wrong
                if isinstance(method, Calibrator):
                    found = outputs.calibrated(outputs.fitted(method, train), test)
                else:
                    found = np.asarray(method(*parts), np.float64)
            rows = _with_probabilities(parts[1], outputs, test, found)
            values[m, :, split] = [float(metric(rows)) for metric in measured.values()]
    train_rows = round(float(sizes.mean()))
    return RepeatedSplits(
        methods=tuple(chosen),
        metrics=tuple(measured),
        baseline=baseline or next(iter(chosen)),
        values=values,
        train_rows=train_rows,
        test_rows=len(units) - train_rows,
        test_to_train=(count - first) / first,
    )


def _checked_methods(
    given: Any, outputs: Outputs, **side_data: Any
) -> dict[str, Calibrator | Procedure]:
    """Calibrators and functions by name, in order. One of them must use each of the `side_data`
    that the caller passed; functions are given features, but not groups."""
    if isinstance(given, str) or not given:
        rule = "must be names of methods, or calibrators and functions by name"
        raise InputError("methods", rule, repr(given))
    procedures = {name: one for name, one in _items(given) if _is_procedure(one)}
    rest = {name: one for name, one in _items(given) if name not in procedures}
    calibrators = named_calibrators(
        rest if isinstance(given, Mapping) else given,
        outputs,
        features_given=side_data["features"] is not None,
        argument="methods",
    )
    for calibrator in calibrators.values():
        outputs.check_use(calibrator)
    takers = [calibrator.takes for calibrator in calibrators.values()]
    takers += [("features",)] * len(procedures)
    for argument, value in side_data.items():
        if value is not None and not any(argument in takes for takes in takers):
            raise InputError(argument, "must be used by one of the methods", ", ".join(given))
    known: dict[str, Calibrator | Procedure] = {**calibrators, **procedures}
    return {name: known[name] for name in given}


def _items(given: Any) -> list[tuple[str, Any]]:
    return list(given.items()) if isinstance(given, Mapping) else []


def _is_procedure(method: Any) -> bool:
    from .base import Calibrator

    return callable(method) and not isinstance(method, (Calibrator, type))


def _with_probabilities(
    rows: Predictions, outputs: Outputs, test: np.ndarray, found: np.ndarray
) -> Predictions:
    """The test rows with their probabilities after calibration, and with their features and
    columns, for the metrics."""
    if found.shape != (len(test), outputs.n_classes):
        rule = f"a function must return probabilities [{len(test)}, {outputs.n_classes}]"
        raise InputError("methods", rule, f"shape {found.shape}")
    return Predictions(
        outputs.codes[test],
        np.clip(found, 0, 1),
        sample_weight=outputs.weights[test],
        features=rows.features,
        feature_names=rows.feature_names,
        columns=rows.columns,
        clusters=rows.clusters,
        tolerance=1e-6,
    )


def _place(name: str, names: tuple[str, ...], argument: str) -> int:
    if name not in names:
        raise InputError(argument, f"must be one of {', '.join(names)}", repr(name))
    return names.index(name)
