"""The ONNX map of every calibrator: its `_transform` as nodes of a graph, registered by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from ...errors import InputError
from ..base import Calibrator
from ..beta import BetaCalibration
from ..binning import BBQ, HistogramBinning
from ..combining import Chain, PerGroup
from ..dirichlet import DirichletCalibration
from ..gaussian_process import GaussianProcessCalibration
from ..group_calibration import GroupCalibration
from ..identity import Identity
from ..isotonic import IRM, IsotonicCalibration
from ..linear import MatrixScaling, PlattScaling, VectorScaling
from ..mean_replacement import MeanReplacement
from ..multicalibration import MultiCalibration
from ..one_vs_rest import CurvesOneVsRest
from ..priors import PriorCorrection
from ..region_boosting import FAR
from ..structured import StructuredMatrixScaling, StructuredScaling, StructuredVectorScaling
from ..temperature import BiasCorrectedTemperature, EnsembleTemperature, TemperatureScaling
from ..venn_abers import VennAbers, points
from .onnx_graph import Graph, Tensor, expit, log_sum_exp


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Rows in a graph; the counterpart of `Sample`."""

    values: Tensor  # [n, K] in float64
    n_classes: int
    from_logits: bool
    floor: float = float(np.finfo(np.float64).tiny)
    sides: Mapping[str, Tensor] = field(default_factory=dict)  # features and groups

    @property
    def graph(self) -> Graph:
        return self.values.graph

    @cached_property
    def log_probs(self) -> Tensor:
        if self.from_logits:
            return self.values.log_softmax()
        p = self.values.largest(self.floor)
        return p.log() - p.total().log()

    @cached_property
    def probs(self) -> Tensor:
        """Rows that sum to 1 up to rounding are not rescaled. A probability on the edge of a bin
        then stays there, whatever the order in which a runtime adds."""
        if self.from_logits:
            return self.log_probs.exp().normalised()
        total = self.values.total()
        return (abs(total - 1.0) <= self.n_classes * 2.0**-52).where(
            self.values, self.values / total
        )

    @cached_property
    def scores(self) -> Tensor:
        """Logits or log-probabilities, minus the largest of the row."""
        z = self.values if self.from_logits else self.log_probs
        return z - z.top()

    @cached_property
    def best(self) -> Tensor:
        return self.values.argmax()

    @property
    def numbers(self) -> np.ndarray:
        return np.arange(self.n_classes)

    def keep_argmax(self, q: Tensor) -> Tensor:
        """Cap each class at the row's first largest value, and classes before it just below."""
        best = self.graph.node("GatherElements", q, self.best, axis=1)
        before = self.graph.node("Less", self.numbers, self.best)
        return q.least(before.where(best * self.each(1 - 2.0**-52), best))

    def each(self, number: float) -> np.ndarray:
        """A number for each class, in place of a scalar: onnxruntime drops a scalar factor that
        rounds to 1 in float32."""
        return np.full(self.n_classes, number)


@singledispatch
def onnx_probabilities(calibrator: Calibrator, rows: GraphRows) -> Tensor:
    """Add the nodes that calibrate rows to their graph. Returns the probabilities."""
    raise InputError("calibrator", "cannot be exported to ONNX", type(calibrator).__name__)


@onnx_probabilities.register
def _(calibrator: Identity, rows: GraphRows) -> Tensor:
    return rows.keep_argmax(rows.probs)


@onnx_probabilities.register
def _(calibrator: TemperatureScaling, rows: GraphRows) -> Tensor:
    return rows.keep_argmax((rows.scores * rows.each(1 / calibrator.temperature_)).softmax())


@onnx_probabilities.register
def _(calibrator: BiasCorrectedTemperature, rows: GraphRows) -> Tensor:
    return (rows.scores * rows.each(1 / calibrator.temperature_) + calibrator.bias_).softmax()


@onnx_probabilities.register
def _(calibrator: EnsembleTemperature, rows: GraphRows) -> Tensor:
    scaled, raw, uniform = calibrator.weights_.tolist()
    probs = (rows.scores * rows.each(1 / calibrator.temperature_)).softmax() * rows.each(
        scaled
    ) + uniform / rows.n_classes
    return rows.keep_argmax(probs + rows.scores.softmax() * rows.each(raw))


@onnx_probabilities.register
def _(calibrator: VectorScaling, rows: GraphRows) -> Tensor:
    return (rows.log_probs * calibrator.scale_ + calibrator.bias_).softmax()


@onnx_probabilities.register
def _(calibrator: MatrixScaling, rows: GraphRows) -> Tensor:
    return (
        rows.graph.node("MatMul", rows.log_probs, calibrator.matrix_.T.copy()) + calibrator.bias_
    ).softmax()


@onnx_probabilities.register
def _(calibrator: StructuredVectorScaling, rows: GraphRows) -> Tensor:
    return (smoothed_logs(calibrator, rows) * calibrator.scale_ + calibrator.bias_).softmax()


@onnx_probabilities.register
def _(calibrator: StructuredMatrixScaling, rows: GraphRows) -> Tensor:
    logs = smoothed_logs(calibrator, rows)
    return (
        rows.graph.node("MatMul", logs, calibrator.matrix_.T.copy()) + calibrator.bias_
    ).softmax()


def smoothed_logs(calibrator: StructuredScaling, rows: GraphRows) -> Tensor:
    """The logarithms of tempered probabilities, mixed with the uniform distribution."""
    probs = (rows.scores * rows.each(1 / calibrator.temperature_)).softmax()
    probs = probs * rows.each(1 - calibrator.uniform_) + calibrator.uniform_ / rows.n_classes
    return probs.log() - probs.total().log()


@onnx_probabilities.register
def _(calibrator: DirichletCalibration, rows: GraphRows) -> Tensor:
    seen = calibrator.seen_.astype(np.int64)
    logs = rows.log_probs if len(seen) == rows.n_classes else rows.log_probs.columns(seen)
    q = (
        rows.graph.node("MatMul", logs, calibrator.weights_.T.copy()) + calibrator.intercept_
    ).softmax()
    if len(seen) == rows.n_classes:
        return q
    # the place of a class without rows does not matter: it is masked
    place = np.searchsorted(seen, rows.numbers).clip(max=len(seen) - 1)
    return share_out(q.columns(place), rows, np.isin(rows.numbers, seen))


@onnx_probabilities.register
def _(calibrator: PlattScaling, rows: GraphRows) -> Tensor:
    log_p = rows.log_probs.log_softmax()
    best = log_p.argmax().equals(rows.numbers)
    others = best.where(-np.inf, log_p)
    rest = best.where(log_sum_exp(others), (1.0 - others.exp()).log())
    u = (log_p - rest) * calibrator.slope_ + calibrator.intercept_
    return (u.least(0.0) - ((-abs(u)).exp() + 1.0).log()).softmax()


@onnx_probabilities.register
def _(calibrator: MeanReplacement, rows: GraphRows) -> Tensor:
    q = np.full(rows.n_classes, (1 - calibrator.accuracy_) / (rows.n_classes - 1))
    q[0] = calibrator.accuracy_
    q /= q.sum()
    return rows.best.equals(rows.numbers).where(q[0], q[1])


@onnx_probabilities.register
def _(calibrator: PriorCorrection, rows: GraphRows) -> Tensor:
    tiny = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore"):
        train, deploy = (
            np.log(np.maximum(calibrator.train_priors_, tiny)),
            np.log(calibrator.deploy_priors_),
        )
    logs = rows.log_probs - train
    return (logs - logs.top() + deploy).softmax()


@onnx_probabilities.register
def _(calibrator: GaussianProcessCalibration, rows: GraphRows) -> Tensor:
    x = rows.log_probs
    g = x * rows.each(calibrator.slope_)
    for point, coefficient in zip(
        calibrator.points_.tolist(), calibrator.coefficients_.tolist(), strict=True
    ):
        # one point at a time: all points together would need their number times the memory
        u = (x - point) / rows.each(calibrator.length_)
        g = g + (u * u * -0.5).exp() * rows.each(calibrator.amplitude_**2 * coefficient)
    return g.softmax()


@onnx_probabilities.register(HistogramBinning)
@onnx_probabilities.register(BBQ)
def _(calibrator: HistogramBinning | BBQ, rows: GraphRows) -> Tensor:
    return one_vs_rest(calibrator, rows, steps)


@onnx_probabilities.register
def _(calibrator: IsotonicCalibration, rows: GraphRows) -> Tensor:
    return one_vs_rest(calibrator, rows, lines)


@onnx_probabilities.register
def _(calibrator: VennAbers, rows: GraphRows) -> Tensor:
    def read(shown: Tensor, curves: list[np.ndarray]) -> Tensor:
        # the curve of a class without rows has a single step
        return steps(shown, [curve if len(curve) == 2 else points(curve) for curve in curves])

    return one_vs_rest(calibrator, rows, read)


@onnx_probabilities.register
def _(calibrator: IRM, rows: GraphRows) -> Tensor:
    curve = lines(rows.probs, [calibrator.knots_])
    if not calibrator.strict:
        return share_out(curve, rows, np.ones(rows.n_classes, bool))
    mixed = curve * rows.each(1 - calibrator.epsilon) + rows.probs * rows.each(calibrator.epsilon)
    return rows.keep_argmax(mixed.normalised())


@onnx_probabilities.register
def _(calibrator: BetaCalibration, rows: GraphRows) -> Tensor:
    if rows.n_classes == 2:
        a, b, c = calibrator.curves_[0].tolist()
        q = expit(rows.graph.node("MatMul", rows.log_probs, np.array([[-b], [a]])) + c)
        return rows.graph.node("Concat", 1.0 - q, q, axis=1)
    large = rows.probs > 0.5  # one class of a row at most
    rest = large.where(
        log_sum_exp(large.where(-np.inf, rows.log_probs)), (1.0 - rows.probs.least(0.5)).log()
    )
    seen = np.array([curve.size > 0 for curve in calibrator.curves_])
    a, b, c = np.array(
        [curve if curve.size else np.zeros(3) for curve in calibrator.curves_]
    ).T.copy()
    return share_out(expit(rows.log_probs * a - rest * b + c), rows, seen)


@onnx_probabilities.register
def _(calibrator: Chain, rows: GraphRows) -> Tensor:
    last = rows
    for member in calibrator.members_:
        last = GraphRows(onnx_probabilities(member, last), rows.n_classes, False)
    probs = last.values if calibrator.members_ else rows.probs
    return rows.keep_argmax(probs) if calibrator.accuracy_preserving else probs


@onnx_probabilities.register
def _(calibrator: PerGroup, rows: GraphRows) -> Tensor:
    groups, rows = rows.sides.get("groups"), replace(rows, sides={})
    probs = onnx_probabilities(calibrator.whole_, rows)
    if groups is not None:
        (names,) = group_names(calibrator)
        for name, member in zip(names.tolist(), calibrator.member_of_.tolist(), strict=True):
            if member >= 0:
                probs = groups.equals(name).where(
                    onnx_probabilities(calibrator.members_[member], rows), probs
                )
    return probs


@onnx_probabilities.register
def _(calibrator: GroupCalibration, rows: GraphRows) -> Tensor:
    """Apply every calibrator to all rows, weighted by the number of partitions that put the row
    into its group."""
    features, rows = rows.sides.get("features"), replace(rows, sides={})
    partitions, groups, _ = calibrator.weights_.shape
    node, points = rows.graph.node, rows.log_probs if features is None else features
    scores = node("MatMul", points, calibrator.weights_.reshape(partitions * groups, -1).T.copy())
    scores = node(
        "Reshape", scores + calibrator.intercepts_.ravel(), np.array([-1, partitions, groups])
    )
    chosen = node("ArgMax", scores, axis=2, keepdims=0) + groups * np.arange(partitions)
    spare, of_spare = np.unique(calibrator.spare_temperatures_, return_inverse=True)
    own = calibrator.member_of_ >= 0
    answers = np.where(
        own, calibrator.member_of_, len(calibrator.members_) + of_spare.reshape(own.shape)
    )
    chosen = node("Gather", answers.ravel(), chosen, axis=0)
    total = rows.probs * 0.0
    for answer in np.unique(answers).tolist():
        if answer < len(calibrator.members_):
            probs = onnx_probabilities(calibrator.members_[answer], rows)
        else:
            probs = (rows.log_probs / rows.each(spare[answer - len(calibrator.members_)])).softmax()
        total = total + chosen.equals(answer).numbers().total() * probs
    total = total / float(partitions)
    return rows.keep_argmax(total) if calibrator.accuracy_preserving else total


@onnx_probabilities.register
def _(calibrator: MultiCalibration, rows: GraphRows) -> Tensor:
    sides, rows = rows.sides, replace(rows, sides={})
    probs = onnx_probabilities(calibrator.whole_, rows)
    if calibrator.rounds_ == 0:
        return probs
    node, size = rows.graph.node, rows.n_classes
    logs = probs.largest(float(np.finfo(np.float64).tiny)).log()
    shift = logs.columns([0]) * 0.0
    if "groups" in sides:
        shift = shift + group_steps(calibrator, sides["groups"])
    if len(calibrator.leaves_):
        level = logs.columns([1]) - logs.columns([0]) if size == 2 else logs.top()
        points = node("Concat", sides["features"], level, axis=1) if "features" in sides else level
        shift = shift + tree_steps(calibrator, points)
    biases, slope = shift.columns(range(size)), shift.columns([size])
    return (logs + biases + slope * logs.largest(logs.top() - FAR)).softmax()


def group_steps(calibrator: MultiCalibration, groups: Tensor) -> Tensor:
    """The sum of the steps of all partitions, [n, K + 1]."""
    node, steps = groups.graph.node, []
    known = [
        groups.columns([column]).equals(object_array(names)).numbers()
        for column, names in enumerate(group_names(calibrator))
    ]
    for columns, table in zip(calibrator._partitions(), calibrator.tables_, strict=True):
        cell, seen = known[columns[0]].argmax(), known[columns[0]].total() > 0.0
        for column in columns[1:]:
            cell = cell * len(calibrator.groups_[column]) + known[column].argmax()
            seen = seen & (known[column].total() > 0.0)
        step = node("Gather", table, seen.where(cell, len(table) - 1), axis=0)
        steps.append(node("Squeeze", step, np.array([1])))
    return node("Sum", *steps)


def tree_steps(calibrator: MultiCalibration, points: Tensor) -> Tensor:
    """The sum of the steps of all trees, [n, K + 1]."""
    node, (trees, leaves, width) = points.graph.node, calibrator.leaves_.shape
    columns, thresholds = calibrator.split_columns_, calibrator.thresholds_
    above = (points.columns(columns.ravel()) > thresholds.ravel()).where(1, 0)
    above = node("Reshape", above, np.array([-1, *columns.shape]))
    powers = 1 << np.arange(columns.shape[1])[::-1]
    leaf = node("ReduceSum", above * powers.copy(), np.array([2]), keepdims=0)
    leaf = leaf + leaves * np.arange(trees)
    steps = node("Gather", calibrator.leaves_.reshape(trees * leaves, width), leaf, axis=0)
    return node("ReduceSum", steps, np.array([1]), keepdims=0)


def object_array(names: np.ndarray) -> np.ndarray:
    """Text as the objects that ONNX stores."""
    return names.astype(object) if names.dtype.kind == "U" else names


def one_vs_rest(calibrator: CurvesOneVsRest, rows: GraphRows, read: Any) -> Tensor:
    """The map of `CurvesOneVsRest`: with two classes the second has a curve, otherwise each
    class with rows."""
    if rows.n_classes == 2:
        q = read(rows.probs.columns([1]), calibrator.curves_)
        return rows.graph.node("Concat", 1.0 - q, q, axis=1)
    seen = np.array([curve.size > 0 for curve in calibrator.curves_])
    curves = [curve if curve.size else np.zeros((2, 1)) for curve in calibrator.curves_]
    return share_out(read(rows.probs, curves), rows, seen)


def share_out(q: Tensor, rows: GraphRows, seen: np.ndarray) -> Tensor:
    """As `one_vs_rest.share_out`: classes without rows keep their probabilities; the others share
    the rest in proportion to q."""
    if seen.all():
        total = q.total()
        return (total > 0.0).where(q / total, rows.probs)
    q = q * seen.astype(np.float64)
    total = q.total()
    rest = 1.0 - (rows.probs * (~seen).astype(np.float64)).total().least(1.0)
    shared = (total > 0.0).where(q * (rest / (total > 0.0).where(total, 1.0)), rows.probs)
    return rows.graph.node("Where", seen, shared, rows.probs).normalised()


def steps(inputs: Tensor, curves: list[np.ndarray]) -> Tensor:
    """Step functions at the inputs, [n, curves], or [n, K] for a single curve."""
    _, heights, place = _search(inputs, curves)
    return inputs.graph.node("Gather", heights, place, axis=0)


def lines(inputs: Tensor, curves: list[np.ndarray]) -> Tensor:
    """Piecewise linear curves at the inputs, as `read_curve` computes them. The last knot is
    followed by one at infinity."""
    knots, heights, place = _search(inputs, curves)
    low, high, start, end = (
        inputs.graph.node("Gather", table, at, axis=0)
        for table in (knots, heights)
        for at in (place, place + 1)
    )
    share = (inputs - low).largest(0.0) / (high - low)
    return (start + share * (end - start)).least(end)


def _search(inputs: Tensor, curves: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """Knots and values of all curves, and for each input the index of the last knot that is not
    above it, or of the first knot.

    Curves are concatenated, each with a last knot at infinity. Bisection runs for all inputs at
    once, in memory for n K numbers.
    """
    node, sizes = inputs.graph.node, np.array([curve.shape[1] for curve in curves])
    knots = np.concatenate([np.append(curve[0], np.inf) for curve in curves])
    heights = np.concatenate([np.append(curve[1], curve[1][-1]) for curve in curves])
    ends = np.cumsum(sizes + 1) - 1
    place: Any = ends - sizes
    half = 1 << int(sizes.max()).bit_length()
    while half := half // 2:
        ahead = node("Min", node("Add", place, half), ends)
        place = node("Where", inputs >= node("Gather", knots, ahead, axis=0), ahead, place)
    return knots, heights, place


def group_names(calibrator: Any) -> list[np.ndarray]:
    """The groups of each column, in a type of ONNX: text, int64, float64 or boolean."""
    given, edges = calibrator.groups_, calibrator.edges_
    if any(len(cuts) for cuts in (edges if isinstance(edges, list) else [edges])):
        rule = "must have groups that are values: ONNX cannot compare ranges of numbers here"
        way_out = ("fit it to the names of ranges, as text",)
        raise InputError("calibrator", rule, "ranges", way_out=way_out)
    names = [_names(column) for column in (given if isinstance(given, list) else [given])]
    kinds = {column.dtype.kind for column in names}
    if len(kinds) > 1:
        rule = "must have columns of groups of one type, as they are one input"
        raise InputError("calibrator", rule, ", ".join(str(column.dtype) for column in names))
    return names


def _names(groups: np.ndarray) -> np.ndarray:
    formats: dict[str, Any] = {
        "U": groups.dtype,
        "i": np.int64,
        "u": np.int64,
        "f": np.float64,
        "b": np.bool_,
    }
    if groups.dtype.kind not in formats:
        rule = "must have groups that ONNX can compare: text, numbers or booleans"
        raise InputError("calibrator", rule, str(groups.dtype))
    names = groups.astype(formats[groups.dtype.kind])
    if not (names == groups).all():
        raise InputError("calibrator", "must have groups within int64", str(groups.max()))
    return names
