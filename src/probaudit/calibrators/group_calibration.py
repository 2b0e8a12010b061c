"""Group calibration: groups of rows are learned from features, and each group gets its own
calibrator (Yang et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from ..choices.partitions import Column
from ..data.arrays import as_array, as_numbers
from ..data.row_index import common_index
from ..data.work import default_threads, one_blas_thread
from ..errors import Argument, InputError
from ..kernels.scaled_softmax import keep_argmax
from .base import Calibrator, Sample, fit_report, log_score
from .combining import base_of, check_places, fit_member, members_report, positive_weight
from .feature_rows import distinct, feature_table, first_share
from .mixture import Grouping, Mixture

REFERENCE_PENALTY = 0.1  # of mean(W^2)


class GroupCalibration(Calibrator):
    """Learns groups of rows from features, and fits a calibrator in each group (Yang et al. 2023,
    Algorithm 1).

    1. Grouping. With soft groups g(x) = softmax(W x + b) (Eq. 14) and a temperature T_i for each,
       L-BFGS minimises the log loss of the mixture sum_i g(x)_i softmax(z / T_i) (Eq. 13) plus
       lambda ||W||^2. Each resample of the rows, with a starting point of its own, gives a
       partition.
    2. Calibration. Each row goes to the group with the largest g, and `base` is fitted in each
       group, on rows that step 1 did not use.
    3. Averaging. The calibrated probabilities are averaged over the partitions. They keep the most
       probable class if `base` does (Theorem 1).

    base : the calibrator of a group; TemperatureScaling unless given.
    n_groups, n_partitions : the numbers K and U of Yang et al. 2023.
    penalty : lambda. By default 0.1 / (the number of weights in W), so that the penalty is 0.1
        mean(W^2), as in the reference implementation. The paper's 0.1 for the whole norm leaves W
        near 0.
    bias : whether g has the intercept b of Eq. 14; the reference implementation has none.
    resample : whether each partition is learned from its own resample of the rows (weighted
        bootstrap: each distinct row has a random exponential weight). False is the algorithm of the
        paper, where partitions differ in their starting points only. See below.
    grouping_share : the share of the rows of each class from which the groups are learned; the
        others fit the calibrators. The split depends on `seed` and on the values of rows, not on
        their order: equal rows stay together.
    min_rows : a group with fewer distinct rows, or with rows of one class only, gets no calibrator.
        It uses the temperature learned with the grouping, or the identity if that fits its rows
        better.
    start : [partitions, groups, features], the starting points of W; random unless given, uniform
        within ±1 / sqrt(features).
    seed : of the starting points, of the resamples and of the split.

    Without resamples, most partitions are the same: the penalised loss has one minimum, or a few,
    and every starting point leads to it. The reference implementation finds the same partitions.
    Larger starting points, standardised features or an intercept change little (docs/reproduce.md,
    paper 4). With resamples, partitions differ. Averaging over them lowered the mean log loss on
    five of six networks there, by less than its 95% interval.

    Without `features`, the groups are learned from the log-probabilities themselves.

    >>> rng = np.random.default_rng(0)
    >>> hidden, x = rng.integers(0, 2, 10000), rng.normal(0, 1.5, 10000)
    >>> odds = np.exp(np.where(hidden, 3 * x, x / 3))  # underconfident, or overconfident
    >>> y = (rng.random(10000) < 1 / (1 + 1 / odds)).astype(int)
    >>> features = np.column_stack([2 * hidden - 1, rng.normal(size=10000)])
    >>> model = GroupCalibration(n_partitions=3, from_logits=True).fit(x, y, features=features)
    >>> sorted(round(member.temperature_, 1) for member in model.members_)  # in truth 1 / 3 and 3
    [0.3, 2.7]
    """

    takes = ("features",)
    _fitted: ClassVar[Mapping[str, Any]] = {
        "weights_": ("U", "G", "D"),
        "intercepts_": ("U", "G"),
        "temperatures_": ("U", "G"),
        "grouped_by_": str,
        "member_of_": ("U", "G"),
        "members_": [Calibrator],
        "spare_temperatures_": ("U", "G"),
    }

    weights_: np.ndarray  # [partitions, groups, features]
    intercepts_: np.ndarray  # [partitions, groups]
    temperatures_: np.ndarray  # [partitions, groups], learned with the grouping
    grouped_by_: str
    # [partitions, groups]: the index of a group's calibrator in members_, or -1
    member_of_: np.ndarray
    members_: list[Calibrator]
    spare_temperatures_: np.ndarray  # [partitions, groups], for groups without a calibrator

    def __init__(
        self,
        base: Calibrator | None = None,
        *,
        n_groups: int = 2,
        n_partitions: int = 20,
        penalty: float | None = None,
        bias: bool = False,
        resample: bool = True,
        grouping_share: float = 0.5,
        min_rows: int = 10,
        start: Any = None,
        seed: int = 0,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.base = base
        self.n_groups = n_groups
        self.n_partitions = n_partitions
        self.penalty = penalty
        self.bias = bias
        self.resample = resample
        self.grouping_share = grouping_share
        self.min_rows = min_rows
        self.start = start
        self.seed = seed
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "group calibration by features"

    @property
    def accuracy_preserving(self) -> bool:  # type: ignore[override]
        return base_of(self.base).accuracy_preserving

    @property
    def fitted_with(self) -> tuple[str, ...]:
        return self.takes if self.grouped_by_ == "features" else ()

    @property
    def feature_columns(self) -> int:  # type: ignore[override]
        return int(self.weights_.shape[2]) if self.fitted_with else 0

    def fit(
        self,
        P: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        features: Any = None,
        grouping_rows: Any = None,
    ) -> Self:
        """Learn the groups from some rows, and the calibrators from the others.

        features : [n, d], one row per row of P.
        grouping_rows : the rows from which groups are learned, as a boolean mask; chosen by
            `grouping_share` unless given.
        """
        common_index({"P": P, "grouping_rows": grouping_rows})
        sample, points = self._rows(P, y, sample_weight, features)
        mask = None
        if grouping_rows is not None:
            mask = as_array(grouping_rows, "grouping_rows")
            if mask.dtype != bool or mask.shape != (len(y),):
                rule = f"must have a boolean for each row ({len(y)})"
                raise InputError("grouping_rows", rule, f"{mask.dtype} {mask.shape}")
            mask = mask[positive_weight(sample_weight, len(y))]
            if mask.all() or not mask.any():
                raise InputError("grouping_rows", "must have some True and some False")
        status = self._fit_parts(sample, points, mask)
        self.fit_report_ = fit_report(sample, self._calibrated(sample, points), *status)
        return self

    def learn_groups(
        self, P: Any, y: Any, sample_weight: Any = None, *, features: Any = None
    ) -> Self:
        """Step 1 alone: learn the groups from all these rows. `fit_calibrators` is step 2."""
        self._learn(*distinct(*self._rows(P, y, sample_weight, features), self.seed))
        return self

    def fit_calibrators(
        self, P: Any, y: Any, sample_weight: Any = None, *, features: Any = None
    ) -> Self:
        """Step 2 alone, after `learn_groups`. It can be repeated with other rows."""
        check_is_fitted(self, "weights_")
        known = self.classes_
        sample, points = self._rows(P, y, sample_weight, features, learned=True)
        if not np.array_equal(known, self.classes_):
            raise InputError(
                "y",
                f"must have the classes that the groups were learned with, {known.tolist()}",
                self.classes_.tolist(),
                way_out=("name them all in ", Argument("classes")),
            )
        status = self._fit_members(*distinct(sample, points, self.seed))
        self.fit_report_ = fit_report(sample, self._calibrated(sample, points), *status)
        return self

    def predict_proba(self, P: Any, features: Any = None) -> np.ndarray:
        """Calibrated probabilities, [n, K]; `features` as in `fit`."""
        check_is_fitted(self, "members_")
        common_index({"P": P, "features": features})
        sample = self._sample(P)
        return self._calibrated(sample, self._points(sample, features, len(sample), learned=True))

    def predict(self, P: Any, features: Any = None) -> np.ndarray:
        """The most probable class of each row after calibration; the first in case of a tie."""
        check_is_fitted(self, "members_")
        return self.classes_[self.predict_proba(P, features).argmax(axis=1)]

    def partitions(self, features: Any) -> list[Column]:
        """The learned partitions of rows, for `probaudit.partitioned_calibration_error`."""
        check_is_fitted(self, "weights_")
        return [
            Column(groups)
            for groups in self._groups(feature_table(features, None, self.weights_.shape[2]))
        ]

    def _rows(
        self, P: Any, y: Any, sample_weight: Any, features: Any, learned: bool = False
    ) -> tuple[Sample, np.ndarray]:
        """The rows of positive weight, and their features."""
        self._check_choices()
        common_index({"P": P, "features": features})
        sample = self._learning_sample(P, y, sample_weight)
        if features is None:
            return sample, self._points(sample, None, len(sample), learned)
        points = self._points(sample, features, len(y), learned)
        return sample, points[positive_weight(sample_weight, len(y))]

    def _points(self, sample: Sample, features: Any, n: int, learned: bool) -> np.ndarray:
        """The features, or the log-probabilities if there are none. Learned groups need the same
        again."""
        source = "outputs" if features is None else "features"
        if learned and source != self.grouped_by_:
            rule = "must be given" if features is None else "must not be given"
            rule += f": the groups were learned from the {self.grouped_by_}"
            needed = "pass those of these rows, or fit to rows without features"
            raise InputError("features", rule, way_out=(needed,) if features is None else ())
        self.grouped_by_ = source
        if features is None:
            return sample.log_probs
        return feature_table(features, n, self.weights_.shape[2] if learned else None)

    def _check_choices(self) -> None:
        for name, least in (("n_groups", 1), ("n_partitions", 1), ("min_rows", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InputError(name, f"must be a whole number of at least {least}", repr(value))
        if self.penalty is not None and not 0 <= self.penalty < np.inf:
            raise InputError("penalty", "must be finite and not negative", self.penalty)
        if not 0 < self.grouping_share < 1:
            raise InputError("grouping_share", "must lie between 0 and 1", self.grouping_share)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        self._check_choices()
        return self._fit_parts(sample, self._points(sample, None, len(sample), learned=False), None)

    def _fit_parts(
        self, sample: Sample, points: np.ndarray, mask: np.ndarray | None
    ) -> tuple[bool, str]:
        words = ""
        if mask is not None:
            first = distinct(sample.take(mask), points[mask], self.seed)
            second = distinct(sample.take(~mask), points[~mask], self.seed)
        else:
            first = second = sample, points = distinct(sample, points, self.seed)
            mask = first_share(sample, self.grouping_share)
            if mask.any() and not mask.all():
                first, second = (
                    (sample.take(mask), points[mask]),
                    (sample.take(~mask), points[~mask]),
                )
            else:
                words = "too few rows to split: groups and calibrators learn from the same rows; "
        grouped, remark = self._learn(*first)
        calibrated, status = self._fit_members(*second)
        return grouped and calibrated, words + remark + status

    def _learn(self, sample: Sample, points: np.ndarray) -> tuple[bool, str]:
        """Learn W and the temperatures of all partitions. Returns whether all searches converged,
        and a remark for the status."""
        shape = (int(self.n_partitions), int(self.n_groups), points.shape[1])
        if self.start is None:
            starts = np.random.default_rng(self.seed).uniform(-1, 1, shape) / np.sqrt(shape[2])
        else:
            starts = as_numbers(self.start, "start").astype(np.float64)
            if starts.shape != shape or not np.isfinite(starts).all():
                raise InputError(
                    "start", f"must be finite numbers of shape {shape}", f"has shape {starts.shape}"
                )
        penalty = REFERENCE_PENALTY / starts[0].size if self.penalty is None else self.penalty
        mixture = Mixture.of(sample, points, penalty, self.bias)

        def learn(u: int) -> Grouping:
            if not self.resample:
                return mixture.minimise(starts[u])
            factors = np.random.default_rng((self.seed, u + 1)).exponential(size=len(sample))
            return mixture.reweighted(factors).minimise(starts[u])

        with (
            one_blas_thread(),
            ThreadPoolExecutor(min(default_threads(), shape[0])) as pool,
        ):
            groupings = list(pool.map(learn, range(shape[0])))
        self.weights_ = np.array([grouping.weights for grouping in groupings])
        self.intercepts_ = np.array([grouping.intercepts for grouping in groupings])
        self.temperatures_ = np.array([grouping.temperatures for grouping in groupings])
        failed = sum(not grouping.converged for grouping in groupings)
        if not failed:
            return True, ""
        return False, f"the search for {failed} of {shape[0]} partitions did not converge; "

    def _fit_members(self, sample: Sample, points: np.ndarray) -> tuple[bool, str]:
        """Fit a calibrator in every group with enough rows. Groups with the same rows share one."""
        groups = self._groups(points)
        base = base_of(self.base)
        self.members_, self.member_of_ = [], np.full(self.temperatures_.shape, -1)
        self.spare_temperatures_ = self.temperatures_.copy()
        known: dict[bytes, int] = {}
        for u, g in np.ndindex(*self.member_of_.shape):
            inside = groups[u] == g
            name = np.packbits(inside).tobytes()
            if name not in known:
                rows = sample.take(inside)
                if len(rows) >= self.min_rows and len(np.unique(rows.codes)) > 1:
                    known[name] = len(self.members_)
                    self.members_.append(fit_member(base, rows, self.classes_))
            self.member_of_[u, g] = known.get(name, -1)
            if (
                self.member_of_[u, g] < 0
                and inside.any()
                and _increases_loss(sample.take(inside), float(self.temperatures_[u, g]))
            ):
                self.spare_temperatures_[u, g] = 1.0
        return self._status(groups)

    def _status(self, groups: np.ndarray) -> tuple[bool, str]:
        partitions = len(
            np.unique(np.array([_numbered_by_first_row(one) for one in groups]), axis=0)
        )
        status = f"{len(groups)} partitions ({partitions} different)"
        few = self.member_of_ < 0
        if few.any():
            kept = int((self.spare_temperatures_[few] == 1).sum())
            status += (
                f"; {few.sum()} of {few.size} groups have fewer than {self.min_rows} distinct rows"
                " or one class and use the temperature learned with the grouping"
                f" ({kept} of them the identity)"
            )
        converged, words = members_report(self.members_)
        return converged, f"{status}; {words}" if words else status

    def _groups(self, points: np.ndarray) -> np.ndarray:
        """The group of each row in each partition, [partitions, n]."""
        partitions, groups, _ = self.weights_.shape
        scores = points @ self.weights_.reshape(partitions * groups, -1).T
        scores = scores.reshape(-1, partitions, groups) + self.intercepts_
        return np.ascontiguousarray(scores.argmax(axis=2).T)

    def _check_learned(self) -> None:
        check_places(self.member_of_, self.members_)
        if not (self.member_of_.size and (self.spare_temperatures_ > 0).all()):
            raise ValueError("groups must have positive temperatures")
        if self.grouped_by_ not in ("features", "outputs"):
            raise ValueError("grouped_by_ must be 'features' or 'outputs'")
        if self.grouped_by_ == "outputs":
            super()._check_learned()

    def _transform(self, sample: Sample) -> np.ndarray:
        return self._calibrated(sample, self._points(sample, None, len(sample), learned=True))

    def _calibrated(self, sample: Sample, features: np.ndarray) -> np.ndarray:
        """The mean over partitions. A calibrator shared by several partitions is applied once.

        features : those that the groups were learned from; log-probabilities if there were none.
        """
        groups = self._groups(features)
        votes = np.zeros((len(self.members_) + 1, len(sample)), np.int64)
        total = np.zeros(sample.values.shape)
        for u, group in enumerate(groups):
            votes[self.member_of_[u][group], np.arange(len(sample))] += 1
            for g in np.flatnonzero(self.member_of_[u] < 0):
                rows = np.flatnonzero(group == g)
                total[rows] += _with_temperature(
                    sample.log_probs[rows], self.spare_temperatures_[u, g]
                )
        for member, count in zip(self.members_, votes[:-1], strict=True):
            rows = np.flatnonzero(count)
            if len(rows):
                total[rows] += count[rows, None] * member._transform(sample.take(rows))
        total /= len(groups)
        if self.accuracy_preserving:
            keep_argmax(sample.values, total)
        return total


def _with_temperature(log_probs: np.ndarray, temperature: float) -> np.ndarray:
    return softmax(log_probs / temperature, axis=1)


def _increases_loss(sample: Sample, temperature: float) -> bool:
    """Whether a temperature increases the log loss."""
    return log_score(_with_temperature(sample.log_probs, temperature), sample) > log_score(
        sample.probs, sample
    )


def _numbered_by_first_row(groups: np.ndarray) -> np.ndarray:
    """Groups numbered in the order of their first rows, so that equal partitions have equal
    numbers.

    >>> _numbered_by_first_row(np.array([2, 0, 2, 1]))
    array([0, 1, 0, 2])
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]
