"""Export calibrators as ONNX models, for programs without Python. Each model is compared with its
calibrator before it is returned."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...data.arrays import as_array
from ...data.extras import needed
from ...data.predictions import SUM_TOLERANCE
from ...errors import InputError
from ...files.writing import write_bytes
from ...kernels.rules import LOGIT_LIMIT
from ...version import __version__
from ..base import Calibrator, Sample, with_first_column
from ..combining import group_table
from ..feature_rows import LARGEST, feature_table
from .onnx_graph import Graph, Tensor
from .onnx_maps import GraphRows, group_names, onnx_probabilities
from .saving import fingerprint

SCHEMA = "probaudit.onnx/1"
OPSET, IR_VERSION = 19, 9  # comparison of strings needs 19; runtimes since 2023 read both
TOLERANCE = 1e-9
ROUNDING = 1e-14  # relative rounding error of an output after a sum or a logarithm
DRAWS = 32
TRIAL_VALUES = 2**16


def to_onnx(
    calibrator: Calibrator,
    path: str | Path | None = None,
    *,
    dtype: Literal["float64", "float32"] = "float64",
    check: Any = None,
) -> Any:
    """A fitted calibrator as an ONNX model (`onnx.ModelProto`), also written to `path` if given. A
    failed write leaves no partial file.

    Inputs : "P", [n, columns], outputs as those that the calibrator was fitted to. Calibrators that
        were fitted with features or groups also take "features", [n, d], and "groups", [n] or
        [n, columns].
    Outputs : "probabilities", [n, K] in float64, and "label", [n], the column of the most probable
        class. A row that `predict_proba` rejects gives NaN, with label -1.
    Metadata : schema, version, calibrator, fingerprint, takes ("probabilities" or "logits"),
        classes (JSON), and checked.

    dtype : the dtype of P and features. The model computes in float64. A probability of 0 counts as
        the smallest normal number of its dtype, so that "float32" differs from casting to float64
        first.
    check : rows on which onnxruntime and the calibrator must agree: P, or a tuple (P, features),
        (P, groups) or (P, features, groups). Random rows, corners and ties unless given.

    The two may differ by 1e-9 (they usually differ by 1e-15), plus twice the change of the
    calibrator if P changes by a relative 1e-14: at the edge of a bin both results are right.

    >>> from probaudit.calibrators import TemperatureScaling
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], [0, 1, 1, 0]
    >>> model = TemperatureScaling().fit(P, y)
    >>> {p.key: p.value for p in to_onnx(model).metadata_props}["takes"]
    'probabilities'
    """
    if dtype not in ("float64", "float32"):
        raise InputError("dtype", "must be 'float64' or 'float32'", repr(dtype))
    if not isinstance(calibrator, Calibrator):
        raise InputError(
            "calibrator",
            "must be a calibrator of probaudit",
            type(calibrator).__name__,
            way_out=("of a CalibratedModel, pass `calibrator_`",),
        )
    name = fingerprint(calibrator)  # rejects calibrators that are not fitted or not registered
    onnx = needed("onnx", "ONNX export", "onnx")
    check_rows = (
        _default_check_rows(calibrator, np.dtype(dtype))
        if check is None
        else _given_check_rows(calibrator, check, np.dtype(dtype))
    )
    model = _model(onnx, calibrator, np.dtype(dtype))
    facts = {
        "schema": SCHEMA,
        "version": __version__,
        "calibrator": type(calibrator).__name__,
        "fingerprint": name,
        "takes": "logits" if calibrator.from_logits else "probabilities",
        "classes": json.dumps(calibrator.classes_.tolist(), ensure_ascii=False),
        "checked": _compare(model, calibrator, check_rows),
    }
    onnx.helper.set_model_props(model, facts)
    if path is not None:
        write_bytes(Path(path), model.SerializeToString(deterministic=True))
    return model


def _graph_rows(graph: Graph, calibrator: Calibrator, dtype: np.dtype) -> GraphRows:
    """Add the inputs and the checks of rows to a graph."""
    size, given = len(calibrator.classes_), int(calibrator.n_features_in_)
    values = graph.input("P", dtype, given)
    values = values if dtype == np.float64 else values.numbers()
    # `with_first_column` computes the remainder in float64
    floor = float(np.finfo(dtype if given == size else np.float64).tiny)
    if given < size:
        # Rounding may put the remainder below 0. If it is further below, the sum check fails.
        first = (
            (values - values).columns([0])
            if calibrator.from_logits
            else (1.0 - values.total()).largest(0.0)
        )
        values = graph.node("Concat", first, values, axis=1)
    low, high = (-LOGIT_LIMIT, LOGIT_LIMIT) if calibrator.from_logits else (0.0, 1 + SUM_TOLERANCE)
    graph.good.append(((values >= low) & (values <= high)).numbers().total() >= float(size))
    if not calibrator.from_logits:
        graph.good.append(abs(values.total() - 1.0) <= SUM_TOLERANCE)
    return GraphRows(
        values, size, calibrator.from_logits, floor, _side_inputs(graph, calibrator, dtype)
    )


def _side_inputs(graph: Graph, calibrator: Calibrator, dtype: np.dtype) -> dict[str, Tensor]:
    """What a calibrator needs besides P: features as [n, d], groups as [n, columns]."""
    sides = {}
    if "features" in calibrator.fitted_with:
        width = calibrator.feature_columns
        features = graph.input("features", dtype, width)
        features = features if dtype == np.float64 else features.numbers()
        graph.good.append((abs(features) <= LARGEST).numbers().total() >= float(width))
        sides["features"] = features
    if "groups" in calibrator.fitted_with:
        kind, columns = group_names(calibrator)[0].dtype, calibrator.group_columns
        if columns == 1:
            groups = graph.node("Unsqueeze", graph.input("groups", kind), np.array([1]))
        else:
            groups = graph.input("groups", kind, columns)
        # a missing number is not itself
        graph.good.append(groups.equals(groups).numbers().total() >= float(columns))
        sides["groups"] = groups
    return sides


def _model(onnx: Any, calibrator: Calibrator, dtype: np.dtype) -> Any:
    graph, make = Graph(onnx), onnx.helper
    rows = _graph_rows(graph, calibrator, dtype)
    probs = onnx_probabilities(calibrator, rows)
    good, *others = graph.good
    for rule in others:
        good = good & rule
    graph.node("Where", good, probs, np.nan, name="probabilities")
    graph.node("Squeeze", good.where(probs.argmax(), -1), np.array([1]), name="label")
    double, whole = (
        make.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in (np.float64, np.int64)
    )
    outputs = [
        make.make_tensor_value_info("probabilities", double, ["n", rows.n_classes]),
        make.make_tensor_value_info("label", whole, ["n"]),
    ]
    body = make.make_graph(
        graph.nodes,
        type(calibrator).__name__,
        graph.inputs,
        outputs,
        list(graph.constants.values()),
    )
    opset = [make.make_opsetid("", OPSET)]
    model = make.make_model(
        body,
        opset_imports=opset,
        ir_version=IR_VERSION,
        producer_name="probaudit",
        producer_version=__version__,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


@dataclass(frozen=True, eq=False)
class CheckRows:
    """Rows on which a graph and its calibrator must agree."""

    given: np.ndarray  # P as the graph takes it
    sample: Sample
    sides: Mapping[str, np.ndarray]  # features and groups

    @classmethod
    def of(
        cls, calibrator: Calibrator, P: np.ndarray, sides: Mapping[str, np.ndarray]
    ) -> CheckRows:
        values = with_first_column(P, len(calibrator.classes_), calibrator.from_logits)
        # rounding may put the remainder below 0
        values = values if calibrator.from_logits else np.maximum(values, 0)
        return cls(
            P,
            Sample(values, calibrator.from_logits, np.zeros(len(P), np.int64), np.ones(len(P))),
            sides,
        )

    def answer(self, calibrator: Any) -> np.ndarray:
        return (
            calibrator._transform(self.sample)
            if not self.sides
            else calibrator._calibrated(self.sample, **self.sides)
        )

    def own_change(self, calibrator: Calibrator) -> np.ndarray:
        """The largest change of the calibrated probabilities if P changes by rounding errors."""
        rng, logits = np.random.default_rng(0), self.sample.from_logits
        P = self.given.astype(np.float64)
        P = P if logits else np.maximum(P, np.finfo(self.sample.values.dtype).tiny)
        size = ROUNDING * (np.maximum(np.abs(P), 1.0) if logits else P)
        before = self.answer(calibrator)
        change = np.zeros(before.shape)
        for _ in range(DRAWS):
            moved = CheckRows.of(calibrator, P + size * rng.uniform(-1, 1, P.shape), self.sides)
            change = np.maximum(change, np.abs(moved.answer(calibrator) - before))
        return change

    def take(self, rows: np.ndarray) -> CheckRows:
        return CheckRows(
            self.given[rows],
            self.sample.take(rows),
            {name: table[rows] for name, table in self.sides.items()},
        )


def _given_check_rows(calibrator: Calibrator, check: Any, dtype: np.dtype) -> CheckRows:
    """The rows that the caller passed."""
    kinds, sides = calibrator.fitted_with, {}
    if kinds:
        if not (isinstance(check, tuple) and len(check) == 1 + len(kinds)):
            rule = f"must be a tuple (P, {', '.join(kinds)})"
            raise InputError("check", rule, type(check).__name__)
        sides = dict(zip(kinds, check[1:], strict=True))
        check = check[0]
    P = calibrator._sample(check).values[:, -int(calibrator.n_features_in_) :].astype(dtype)
    if "features" in sides:
        table = feature_table(sides["features"], len(P), calibrator.feature_columns)
        sides["features"] = table.astype(dtype)
    if "groups" in sides:
        sides["groups"] = _given_groups(calibrator, sides["groups"], len(P))
    return CheckRows.of(calibrator, np.ascontiguousarray(P), sides)


def _given_groups(calibrator: Calibrator, groups: Any, n: int) -> np.ndarray:
    """Groups in the type of the graph: [n], or [n, columns]."""
    columns, known = group_table(as_array(groups, "check"), n), group_names(calibrator)
    if len(columns) != len(known):
        raise InputError("check", f"its groups must have {len(known)} columns", len(columns))
    text = known[0].dtype.kind == "U"
    dtype = np.dtype(str) if text else known[0].dtype
    for column in columns:
        if (column.dtype.kind == "U") != text or not np.can_cast(column.dtype, dtype, "same_kind"):
            rule = f"its groups must be of the calibrator's type, {dtype.name}"
            raise InputError("check", rule, str(column.dtype))
    return _as_one([column.astype(dtype) for column in columns])


def _as_one(columns: Sequence[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _default_check_rows(calibrator: Calibrator, dtype: np.dtype) -> CheckRows:
    """Random rows from uncertain to nearly certain, corners of the simplex, and ties."""
    rng, size = np.random.default_rng(0), len(calibrator.classes_)
    n = max(16, min(256, TRIAL_VALUES // size))
    corners = np.eye(size)[: TRIAL_VALUES // size]
    if calibrator.from_logits:
        random = [scale * rng.normal(size=(n, size)) for scale in (0.1, 1.0, 10.0, 1e3)]
        P = np.concatenate(
            [*random, np.zeros((1, size)), 1e5 * (2 * corners - 1), LOGIT_LIMIT * corners]
        )
        P = P[:, 1:] - P[:, :1] if calibrator.n_features_in_ < size else P
        P = P.clip(-LOGIT_LIMIT, LOGIT_LIMIT)
    else:
        random = [rng.dirichlet(np.full(size, a), n) for a in (0.05, 0.3, 1.0, 10.0)]
        random[-1] *= rng.choice([1 - 5e-6, 1 + 5e-6], (n, 1))  # not quite normalised
        P = np.concatenate(
            [
                *random,
                np.full((1, size), 1 / size),
                corners,
                (corners + np.roll(corners, 1, axis=1)) / 2,
            ]
        )
        P = P[:, -int(calibrator.n_features_in_) :]
        P = P[P.sum(axis=1) <= 1] if calibrator.n_features_in_ < size else P
    P = P.astype(dtype)
    sides = {}
    if "features" in calibrator.fitted_with:
        table = rng.normal(size=(len(P), calibrator.feature_columns)) * 10.0 ** rng.integers(
            -2, 4, (len(P), 1)
        )
        sides["features"] = table.astype(dtype)
    if "groups" in calibrator.fitted_with:
        columns: list[np.ndarray] = []
        for names in group_names(calibrator):
            unseen: Any = {"U": "\N{SNOWMAN}", "b": True}.get(names.dtype.kind) or names.max() + 1
            column = np.resize(np.append(names, unseen), len(P))
            columns.append(rng.permutation(column) if columns else column)
        sides["groups"] = _as_one(columns)
    return CheckRows.of(calibrator, P, sides)


def _compare(model: Any, calibrator: Calibrator, check_rows: CheckRows) -> str:
    """The largest difference between the model and its calibrator, in words. Raises if they
    disagree."""
    try:
        runtime = needed("onnxruntime", "ONNX export", "onnx")
    except ImportError as problem:
        warnings.warn(f"the ONNX model was not checked: {problem}", stacklevel=3)
        return "no"
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {"P": check_rows.given}
    for name, table in check_rows.sides.items():
        feeds[name] = table.astype(object) if table.dtype.kind == "U" else table
    probs, label = session.run(["probabilities", "label"], feeds)
    expected = check_rows.answer(calibrator)
    difference = np.abs(probs - expected)
    far = np.flatnonzero(~(difference <= TOLERANCE).all(axis=1))
    if len(far):
        allowed = TOLERANCE + 2 * check_rows.take(far).own_change(calibrator)
        wrong = np.argwhere(~(difference[far] <= allowed))
        if len(wrong):
            row, column = int(far[wrong[0][0]]), int(wrong[0][1])
            raise RuntimeError(
                f"the ONNX model must agree with its calibrator: in row {row}, column {column} of"
                f" the rows compared it gives {probs[row, column]:.17g} and the calibrator"
                f" {expected[row, column]:.17g}. Nothing was written; please report this"
            )
    if calibrator.accuracy_preserving:
        moved = np.flatnonzero(label != check_rows.sample.values.argmax(axis=1))
    else:
        ordered = np.sort(expected, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 2 * TOLERANCE
        clear[far] = False
        moved = np.flatnonzero(clear & (label != expected.argmax(axis=1)))
    if len(moved):
        raise RuntimeError(
            "the ONNX model must predict the class of its calibrator: they differ in row"
            f" {moved[0]} of the rows compared. Nothing was written; please report this"
        )
    largest = np.delete(difference, far, axis=0).max(initial=0.0)
    words = f"{len(probs)} rows, largest difference {largest:.1e}"
    return words + (f", ignoring {len(far)} at a jump of the calibrator" if len(far) else "")
