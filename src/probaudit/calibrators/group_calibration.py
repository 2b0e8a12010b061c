"""Group calibration: groups of rows are learned from features, and each group has its own
calibrator (Yang et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from ..choices.partitions import Column
from ..data.arrays import as_array, as_numbers
from ..data.parallel import default_threads
from ..errors import InputError
from ..kernels.scaled_softmax import keep_argmax
from .base import Calibrator, Sample, fit_report, log_score
from .combining import base_of, check_places, fit_member, members_report, positive_weight
from .mixture import Mixture

LARGEST = 1e100


class GroupCalibration(Calibrator):
    """A linear map of the features splits the rows into groups, and each group has its own
    calibrator (Yang et al. 2023, Algorithm 1).

    1. Grouping. With soft groups g(x) = softmax(W x) and a temperature T_i for each, L-BFGS
       minimises the log loss of the mixture sum_i g(x)_i softmax(z / T_i) (Eq. 13) plus penalty *
       mean(W^2), from several starts: each gives a partition.
    2. Calibration. Each row goes to the group with the largest g, and `base` is fitted in each
       group, to other rows.
    3. The calibrated probabilities are averaged over the partitions. They keep the most probable
       class if `base` does (Theorem 1).

    base : the calibrator of a group; TemperatureScaling unless given.
    n_groups, n_partitions : K and U of Yang et al. 2023.
    penalty : on the mean of W^2, as in the reference implementation; Yang et al. 2023 write lambda
        times the squared norm.
    bias : whether g has an intercept, as in Eq. 14; the reference has none.
    grouping_share : the share of the rows of each class from which the groups are learned; the
        others fit the calibrators. The split depends on `seed` and on the values of rows, not on
        their order: equal rows stay together.
    min_rows : a group with fewer distinct rows, or with rows of one class only, gets no calibrator.
        It uses the temperature learned with the grouping, or the identity if that fits its rows
        better.
    start : [partitions, groups, features], where W starts; uniform in +-1 / sqrt(features) unless
        given.

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

    takes = "features"
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
    # [partitions, groups]: the place of a group's calibrator in members_, or -1
    member_of_: np.ndarray
    members_: list[Calibrator]
    spare_temperatures_: np.ndarray  # [partitions, groups], for groups without a calibrator

    def __init__(
        self,
        base: Calibrator | None = None,
        *,
        n_groups: int = 2,
        n_partitions: int = 20,
        penalty: float = 0.1,
        bias: bool = False,
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
        sample, points = self._rows(P, y, sample_weight, features)
        mask = None
        if grouping_rows is not None:
            mask = as_array(grouping_rows, "grouping_rows")
            if mask.dtype != bool or mask.shape != (len(y),):
                raise InputError(
                    "grouping_rows",
                    f"must be a boolean for each row ({len(y)})",
                    f"{mask.dtype} {mask.shape}",
                )
            mask = mask[positive_weight(sample_weight, len(y))]
            if mask.all() or not mask.any():
                raise InputError("grouping_rows", "must have some True and some False")
        status = self._fit_parts(sample, points, mask)
        self.fit_report_ = fit_report(sample, self._calibrated(sample, points), *status)
        return self

    def learn_groups(
        self, P: Any, y: Any, sample_weight: Any = None, *, features: Any = None
    ) -> Self:
        """Step 1 alone, on rows of its own; `fit_calibrators` is next."""
        self._learn(*distinct(*self._rows(P, y, sample_weight, features), self.seed))
        return self

    def fit_calibrators(
        self, P: Any, y: Any, sample_weight: Any = None, *, features: Any = None
    ) -> Self:
        """Step 2 alone, for groups that are already learned. It can be repeated with other rows."""
        check_is_fitted(self, "weights_")
        known = self.classes_
        sample, points = self._rows(P, y, sample_weight, features, learned=True)
        if not np.array_equal(known, self.classes_):
            rule = (
                f"must have the classes that the groups were learned with, {known.tolist()};"
                " name them all in `classes`"
            )
            raise InputError("y", rule, self.classes_.tolist())
        status = self._fit_members(*distinct(sample, points, self.seed))
        self.fit_report_ = fit_report(sample, self._calibrated(sample, points), *status)
        return self

    def predict_proba(self, P: Any, features: Any = None) -> np.ndarray:
        """Calibrated probabilities, [n, K]; `features` as in `fit`."""
        check_is_fitted(self, "members_")
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
        sample = self._learning_sample(P, y, sample_weight)
        if features is None:
            return sample, self._points(sample, None, len(sample), learned)
        points = self._points(sample, features, len(y), learned)
        return sample, points[positive_weight(sample_weight, len(y))]

    def _points(self, sample: Sample, features: Any, n: int, learned: bool) -> np.ndarray:
        """The features, or the log-probabilities if there are none. The choice is fixed once groups
        are learned."""
        source = "outputs" if features is None else "features"
        if learned and source != self.grouped_by_:
            rule = "must not be given" if features is not None else "must be given"
            raise InputError(
                "features", f"{rule}: the groups were learned from the {self.grouped_by_}"
            )
        self.grouped_by_ = source
        if features is None:
            return sample.log_probs
        return feature_table(features, n, self.weights_.shape[2] if learned else None)

    def _check_choices(self) -> None:
        for name, least in (("n_groups", 1), ("n_partitions", 1), ("min_rows", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InputError(name, f"must be a whole number of at least {least}", repr(value))
        if not 0 <= self.penalty < np.inf:
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
        found, learned = self._learn(*first)
        converged, status = self._fit_members(*second)
        return converged and found, words + learned + status

    def _learn(self, sample: Sample, points: np.ndarray) -> tuple[bool, str]:
        """Learn W and the temperatures of all partitions."""
        shape = (int(self.n_partitions), int(self.n_groups), points.shape[1])
        if self.start is None:
            starts = np.random.default_rng(self.seed).uniform(-1, 1, shape) / np.sqrt(shape[2])
        else:
            starts = as_numbers(self.start, "start").astype(np.float64)
            if starts.shape != shape or not np.isfinite(starts).all():
                raise InputError(
                    "start", f"must be finite numbers of shape {shape}", f"has shape {starts.shape}"
                )
        mixture = Mixture.of(sample, points, self.penalty, self.bias)
        with (
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(min(default_threads(), shape[0])) as pool,
        ):
            found = list(pool.map(mixture.minimise, starts))
        self.weights_ = np.array([one.weights for one in found])
        self.intercepts_ = np.array([one.intercepts for one in found])
        self.temperatures_ = np.array([one.temperatures for one in found])
        failed = sum(not one.converged for one in found)
        return (
            not failed,
            f"the search for {failed} of {shape[0]} partitions did not converge; "
            if failed
            else "",
        )

    def _fit_members(self, sample: Sample, points: np.ndarray) -> tuple[bool, str]:
        """Fit a calibrator in every group with enough rows. Groups of the same rows share it."""
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
                and worse(sample.take(inside), float(self.temperatures_[u, g]))
            ):
                self.spare_temperatures_[u, g] = 1.0
        return self._status(groups)

    def _status(self, groups: np.ndarray) -> tuple[bool, str]:
        partitions = len(np.unique(np.array([same_partition(one) for one in groups]), axis=0))
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
        pairs = zip(self.weights_, self.intercepts_, strict=True)
        return np.array(
            [(points @ weights.T + intercepts).argmax(axis=1) for weights, intercepts in pairs]
        )

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

    def _calibrated(self, sample: Sample, points: np.ndarray) -> np.ndarray:
        """The mean over partitions. A calibrator shared by several partitions is applied once."""
        groups = self._groups(points)
        votes = np.zeros((len(self.members_) + 1, len(sample)), np.int64)
        total = np.zeros(sample.values.shape)
        for u, group in enumerate(groups):
            votes[self.member_of_[u][group], np.arange(len(sample))] += 1
            for g in np.flatnonzero(self.member_of_[u] < 0):
                rows = np.flatnonzero(group == g)
                total[rows] += with_temperature(
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


def with_temperature(log_probs: np.ndarray, temperature: float) -> np.ndarray:
    return softmax(log_probs / temperature, axis=1)


def worse(sample: Sample, temperature: float) -> bool:
    """Whether a temperature increases the log loss."""
    return log_score(with_temperature(sample.log_probs, temperature), sample) > log_score(
        sample.probs, sample
    )


def same_partition(groups: np.ndarray) -> np.ndarray:
    """Groups numbered in the order of their first rows, so that equal partitions have equal
    numbers.

    >>> same_partition(np.array([2, 0, 2, 1]))
    array([0, 1, 0, 2])
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def feature_table(features: Any, n: int | None, d: int | None) -> np.ndarray:
    """Features as [n, d] in float64, checked."""
    table = as_numbers(features, "features").astype(np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] == 0 or len(table) != (len(table) if n is None else n):
        rule = (
            "must be [rows, features]" if n is None else f"must be [rows, features] with {n} rows"
        )
        raise InputError("features", rule, f"has shape {table.shape}")
    if d is not None and table.shape[1] != d:
        raise InputError(
            "features",
            f"must have the {d} columns that the groups were learned from",
            table.shape[1],
        )
    strange = ~(np.abs(table) <= LARGEST)
    if strange.any():
        row, column = np.argwhere(strange)[0]
        raise InputError(
            "features", f"must be finite and within +-{LARGEST:g}", table[row, column], row=int(row)
        )
    return table


def distinct(sample: Sample, points: np.ndarray, seed: int) -> tuple[Sample, np.ndarray]:
    """The distinct rows with their weights added, in an order that depends only on their values and
    the seed."""
    keys = row_keys(seed, sample.codes[:, None], sample.values, points)
    order = np.argsort(keys, kind="stable")
    sample, points, keys = sample.take(order), points[order], keys[order]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    same = (sample.codes[again] == sample.codes[again - 1]) & (
        points[again] == points[again - 1]
    ).all(axis=1)
    same &= (sample.values[again] == sample.values[again - 1]).all(axis=1)
    firsts = np.delete(np.arange(len(keys)), again[same])
    weights = np.add.reduceat(sample.weights, firsts)
    return Sample(sample.values[firsts], sample.from_logits, sample.codes[firsts], weights), points[
        firsts
    ]


def row_keys(seed: int, *tables: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row (SplitMix64, Steele et al. 2014, figure 16).

    >>> np.unique(row_keys(0, np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))).size
    2
    """
    keys = np.full(len(tables[0]), seed, np.uint64)
    for table in tables:
        for column in table.T:
            keys ^= (column.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            keys += np.uint64(0x9E3779B97F4A7C15)
            keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            keys ^= keys >> np.uint64(31)
    return keys


def first_share(sample: Sample, share: float) -> np.ndarray:
    """The rows that make up the first share of the weight of each class."""
    chosen = np.zeros(len(sample), bool)
    for code in np.unique(sample.codes):
        rows = np.flatnonzero(sample.codes == code)
        weights = sample.weights[rows]
        middle = (np.cumsum(weights) - weights / 2) / weights.sum()
        # a row that sits on the border does so whatever its weight's rounding
        chosen[rows] = middle < share - 1e-9
    return chosen
