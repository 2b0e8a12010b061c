"""What every calibrator promises, whatever its family: laws and edges over a registry of all of
them."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import probaudit as pb
from probaudit import calibrators
from probaudit.calibrators import (
    MODULES,
    Calibrator,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from probaudit.calibrators.base import WORSE, as_repeats, distinct_labels
from probaudit.errors import InputError
from probaudit.simulate import gaussian_posteriors
from tests.calibrators.test_calibrators_families import FAMILIES
from tests.calibrators.test_calibrators_groups import all_kinds
from tests.calibrators.test_calibrators_temperature import ALL
from tests.conftest import softmax

FEW = {"n_partitions": 2, "min_rows": 4}

# Every class of the package, each with the choices under which it is judged.
REGISTRY: dict[str, list[dict]] = {
    "BBQ": [{}, {"weighting": "bic", "equal": "width"}],
    "BetaCalibration": [{}, {"parameters": "ab"}],
    "BiasCorrectedTemperature": [{}],
    "Chain": [{}, {"steps": [TemperatureScaling(), VectorScaling()]}],
    "DirichletCalibration": [{}],
    "EnsembleTemperature": [{}, {"loss": "log"}],
    "GaussianProcessCalibration": [{}],
    "GroupCalibration": [FEW, {"base": VectorScaling(), "bias": True, "n_groups": 3, **FEW}],
    "HistogramBinning": [{}, {"equal": "mass"}],
    "IRM": [{}, {"strict": False}],
    "Identity": [{}],
    "IsotonicCalibration": [{}, {"finite": False}, {"centred": True}],
    "MatrixScaling": [{}, {"l2": 0.1, "penalty": "odir"}],
    "MeanReplacement": [{}],
    "MultiCalibration": [{}, {"base": VectorScaling(), "rounds": 5, "min_rows": 9}],
    "PerGroup": [{}, {"base": PlattScaling()}],
    "PlattScaling": [{}, {"smooth": False}],
    "PriorCorrection": [{}],
    "StructuredMatrixScaling": [{}],
    "StructuredVectorScaling": [{}, {"scale_penalty": 0.1, "bias_penalty": 10.0}],
    "TemperatureScaling": [{}],
    "VectorScaling": [{}],
    "VennAbers": [{}],
}
KINDS = {
    f"{name}-{i}": (name, choices)
    for name, list_ in REGISTRY.items()
    for i, choices in enumerate(list_)
}
every = pytest.mark.parametrize("kind", KINDS)

# What depends on how many rows there are, and so on the scale of weights above a mean of 1:
# pseudo-counts, priors, bins.
COUNT_ROWS = {
    "BBQ-0",
    "BBQ-1",
    "GaussianProcessCalibration-0",
    "IsotonicCalibration-0",
    "IsotonicCalibration-2",
    "MultiCalibration-1",
    "PlattScaling-0",
    "PerGroup-1",
    "StructuredMatrixScaling-0",
    "StructuredVectorScaling-0",
    "StructuredVectorScaling-1",
    "VennAbers-0",
}
# Fits that minimise the log score over a family with the identity in it: never worse on their own
# rows.
MINIMISERS = [
    "BetaCalibration-0",
    "BiasCorrectedTemperature-0",
    "DirichletCalibration-0",
    "EnsembleTemperature-1",
    "GaussianProcessCalibration-0",
    "MatrixScaling-0",
    "MatrixScaling-1",
    "TemperatureScaling-0",
    "VectorScaling-0",
]


def make(kind: str, **more: object) -> Calibrator:
    name, choices = KINDS[kind]
    return getattr(calibrators, name)(
        **{key: clone(value, safe=False) for key, value in choices.items()}, **more
    )


def close(kind: str) -> float:
    """How near two searches for one optimum end. Hardly determined directions of a matrix leave
    more room."""
    return 1e-5 if kind.startswith(("MatrixScaling", "GroupCalibration-1", "Chain-1")) else 1e-6


def world(
    n: int = 120, classes: int = 3, seed: int = 0, sharp: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are too large and biased, and labels."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.normal(size=(n, classes))
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    y[:classes] = np.arange(classes)[:n]
    return sharp * truth + np.linspace(-0.5, 0.5, classes), y


def proper(probs: np.ndarray, shape: tuple[int, ...]) -> None:
    assert probs.shape == shape
    assert probs.dtype == np.float64
    assert np.isfinite(probs).all()
    assert ((probs >= 0) & (probs <= 1)).all()
    assert np.abs(probs.sum(axis=1) - 1).max() <= 1e-12


def honest(model: Calibrator) -> None:
    """A fit that makes its own rows worse says so."""
    report = model.fit_report_
    assert report.status
    assert report.n >= 2
    if report.score_after > report.score_before + 1e-9:
        assert WORSE in report.status


# --- the registry itself


def test_the_registry_is_complete():
    classes = {
        getattr(calibrators, name)
        for name in MODULES
        if isinstance(getattr(calibrators, name), type)
    }
    ours = {c for c in classes if issubclass(c, Calibrator) and c is not Calibrator}
    assert {c.__name__ for c in ours} == set(REGISTRY)
    assert calibrators.DirectionPreserving is calibrators.BiasCorrectedTemperature


ELSEWHERE = {type(build()) for build in (*ALL, *FAMILIES.values())} | {
    type(model) for model in all_kinds()
}


@pytest.mark.parametrize(
    "name", [name for name in REGISTRY if getattr(calibrators, name) not in ELSEWHERE]
)
def test_scikit_learn_contract(name):
    """Of classes whose own tests do not check it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(getattr(calibrators, name)(from_logits=True), on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


# --- laws


@every
def test_a_calibrator_recognises_the_rows_of_its_fit(kind):
    z, y = world()
    model = make(kind, from_logits=True).fit(z, y)
    again = np.random.default_rng(0).permutation(len(y))
    outputs = model.predict_proba(z[again]).astype(np.float32)
    if model.fit_identity is None:
        assert kind == "Identity-0" or np.isinf(model.fit_report_.score_after)
    else:
        assert model.fit_identity.was_on(len(y), float(pb.log_score(y[again], outputs)))
        loaded = calibrators.from_json(calibrators.to_json(model))
        assert loaded.fit_identity == model.fit_identity


@every
def test_order_of_rows_does_not_matter(kind):
    """Up to rounding of sums. (The Gaussian process chooses its length on every so many-th row
    beyond 65,536 outputs.)"""
    z, y = world()
    order = np.random.default_rng(1).permutation(len(y))
    plain, turned = (
        make(kind, from_logits=True).fit(z, y),
        make(kind, from_logits=True).fit(z[order], y[order]),
    )
    assert turned.predict_proba(z) == pytest.approx(plain.predict_proba(z), abs=close(kind))
    np.testing.assert_array_equal(plain.predict_proba(z[order]), plain.predict_proba(z)[order])


@every
def test_layout_of_arrays_does_not_matter(kind, tmp_path):
    z, y = world(60)
    expected = make(kind, from_logits=True).fit(z, y).predict_proba(z)
    frozen = z.copy()
    frozen.flags.writeable = False
    np.save(tmp_path / "z.npy", z)
    wide = np.zeros((120, 6))
    wide[::2, ::2] = z
    layouts = {
        "fortran": np.asfortranarray(z),
        "read-only": frozen,
        "big-endian": z.astype(">f8"),
        "memory-mapped": np.load(tmp_path / "z.npy", mmap_mode="r"),
        "strided": wide[::2, ::2],
        "list": z.tolist(),
    }
    for name, values in layouts.items():
        found = make(kind, from_logits=True).fit(values, y).predict_proba(values)
        np.testing.assert_array_equal(found, expected, err_msg=name)


@every
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("from_logits", [False, True])
def test_formats_are_what_their_values_say(kind, dtype, from_logits):
    """A format only rounds what it holds: the same values in float64 give the same."""
    z, y = world(80)
    z = z.clip(-6, 6)  # float16 has no probabilities far below 1e-7
    rough = (z if from_logits else softmax(z)).astype(dtype)
    exact = rough.astype(np.float64)
    exact = exact if from_logits else exact / exact.sum(axis=1, keepdims=True)
    found = make(kind, from_logits=from_logits).fit(rough, y).predict_proba(rough)
    proper(found, z.shape)
    model = make(kind, from_logits=from_logits)
    # which rows learn the groups depends on every bit of them
    if kind.startswith("GroupCalibration"):
        mask = np.arange(80) % 2 == 0
        found = (
            make(kind, from_logits=from_logits)
            .fit(rough, y, grouping_rows=mask)
            .predict_proba(rough)
        )
        expected = model.fit(exact, y, grouping_rows=mask).predict_proba(exact)
    elif kind.startswith("MultiCalibration"):  # so do its inner folds
        rows = np.arange(80)
        found = (
            make(kind, from_logits=from_logits).fit(rough, y, clusters=rows).predict_proba(rough)
        )
        expected = model.fit(exact, y, clusters=rows).predict_proba(exact)
    else:
        expected = model.fit(exact, y).predict_proba(exact)
    # A histogram has steps: an output that sits on an edge may fall to either side.
    far = (np.abs(found - expected) > close(kind)).any(axis=1)
    assert far.sum() <= (1 if kind.startswith(("HistogramBinning", "BBQ")) else 0)


@every
@pytest.mark.parametrize("classes", [2, 4])
def test_weights_are_repeats_and_zero_is_absent(kind, classes):
    z, y = world(90, classes)
    w = np.random.default_rng(1).integers(0, 4, 90)
    weighted = make(kind, from_logits=True).fit(z, y, sample_weight=w)
    repeated = make(kind, from_logits=True).fit(np.repeat(z, w, axis=0), np.repeat(y, w))
    kept = make(kind, from_logits=True).fit(z[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert weighted.predict_proba(z) == pytest.approx(repeated.predict_proba(z), abs=close(kind))
    np.testing.assert_array_equal(weighted.predict_proba(z), kept.predict_proba(z))
    assert weighted.fit_report_.n == (w > 0).sum()
    assert weighted.fit_report_.score_before == pytest.approx(
        repeated.fit_report_.score_before, rel=1e-12
    )


@every
def test_the_scale_of_weights(kind):
    z, y = world(90)
    w = np.random.default_rng(1).random(90) + 0.1
    shares, plain = (
        make(kind, from_logits=True).fit(z, y, s * w).predict_proba(z) for s in (1e-9, 0.5)
    )
    # both have a mean below 1, and count as one row each
    assert shares == pytest.approx(plain, abs=close(kind))
    many = make(kind, from_logits=True).fit(z, y, 1000 * w).predict_proba(z)
    assert (np.abs(many - plain).max() <= close(kind)) == (kind not in COUNT_ROWS)
    for extreme in (1e300, 5e-324):
        proper(
            make(kind, from_logits=True).fit(z, y, np.full(90, extreme)).predict_proba(z), z.shape
        )


@every
def test_labels_of_every_kind(kind):
    z, y = world(60)
    expected = make(kind, from_logits=True).fit(z, y).predict_proba(z)
    names = np.array(["ash", "birch", "cedar"])
    for labels in (
        y.astype(np.int8),
        y.astype(np.uint8),
        y.astype(float),
        y.tolist(),
        names[y],
        names[y].astype(object),
        y + 5,
    ):
        model = make(kind, from_logits=True).fit(z, labels)
        np.testing.assert_array_equal(model.predict_proba(z), expected)
        np.testing.assert_array_equal(model.classes_, np.unique(labels))
        np.testing.assert_array_equal(model.predict(z), np.unique(labels)[expected.argmax(axis=1)])
    z, y = world(60, 2)
    expected = make(kind, from_logits=True).fit(z, y).predict_proba(z)
    model = make(kind, from_logits=True).fit(z, y.astype(bool))
    np.testing.assert_array_equal(model.predict_proba(z), expected)
    assert model.predict(z).dtype == bool


@every
def test_columns_and_classes_in_another_order(kind):
    z, y = world(120, 4)
    names = np.array(["d", "a", "c", "b"])
    expected = make(kind, from_logits=True).fit(z, y).predict_proba(z)
    declared = make(kind, from_logits=True, classes=names).fit(z, names[y])
    np.testing.assert_array_equal(declared.classes_, names)
    np.testing.assert_array_equal(declared.predict_proba(z), expected)
    order = np.array([2, 0, 3, 1])
    if kind.startswith("GroupCalibration"):
        return  # its starting weights and its choice of rows belong to columns as they come
    turned = make(kind, from_logits=True, classes=order).fit(z[:, order], y)
    assert turned.predict_proba(z[:, order]) == pytest.approx(
        expected[:, order], abs=10 * close(kind)
    )


@every
def test_a_class_without_rows_keeps_its_column(kind):
    z, y = world(120, 4)
    kept = y != 2
    model = make(kind, from_logits=True, classes=range(4)).fit(z[kept], y[kept])
    probs = model.predict_proba(z)
    proper(probs, z.shape)
    assert 0 < probs[:, 2].mean() < 1
    honest(model)


@every
@pytest.mark.parametrize("from_logits", [False, True])
def test_one_column_is_two_columns(kind, from_logits):
    z, y = world(100, 2)
    one = z[:, 1] - z[:, 0]
    if not from_logits:
        one = 1 / (1 + np.exp(-one))
    two = np.column_stack([np.zeros(100) if from_logits else 1 - one, one])
    model = make(kind, from_logits=from_logits).fit(two, y)
    expected = model.predict_proba(two)
    for column in (one, one.tolist()):
        np.testing.assert_array_equal(model.predict_proba(column), expected)
    for column in (one, one[:, None], one.tolist()):
        np.testing.assert_array_equal(
            make(kind, from_logits=from_logits).fit(column, y).predict_proba(column), expected
        )


@every
def test_fit_twice_is_fit_once(kind):
    first, second = world(80), world(100, 4, seed=1)
    once = make(kind, from_logits=True).fit(*second)
    twice = make(kind, from_logits=True).fit(*first).fit(*second)
    np.testing.assert_array_equal(twice.predict_proba(second[0]), once.predict_proba(second[0]))
    assert twice.fit_report_ == once.fit_report_
    again = clone(twice).fit(*second)
    np.testing.assert_array_equal(again.predict_proba(second[0]), once.predict_proba(second[0]))
    loaded = pickle.loads(pickle.dumps(twice))
    np.testing.assert_array_equal(loaded.predict_proba(second[0]), once.predict_proba(second[0]))


@every
def test_fitting_changes_nothing_it_was_given(kind):
    z, y = world(60)
    p, w = softmax(z), np.full(60, 2.0)
    before = p.copy(), y.copy(), w.copy()
    model = make(kind)
    choices = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(p, y, w).predict_proba(p)
    for now, then in zip((p, y, w), before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert {name: repr(value) for name, value in model.get_params().items()} == choices


# --- edges

EDGES = {
    "certain and right": (np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 0]),
    "certain and wrong": (np.eye(3)[[0, 1, 2, 0]], [1, 2, 0, 1]),
    "certain, both": (np.eye(3)[[0, 1, 2, 0, 1, 2]], [0, 1, 2, 1, 2, 0]),
    "subnormal": (
        np.array([[5e-324, 1, 0], [1, 5e-324, 0], [0.2, 0.3, 0.5], [0, 5e-324, 1]]),
        [0, 1, 2, 1],
    ),
    "next to one": (
        np.array([[1 - 2**-53, 2**-53, 0], [0, 1 - 2**-53, 2**-53], [0.2, 0.3, 0.5]]),
        [1, 0, 2],
    ),
    "constant": (np.full((9, 3), 1 / 3), [0, 1, 1, 2, 1, 1, 0, 1, 2]),
    "constant and certain": (np.eye(3)[[0] * 6], [0, 0, 1, 2, 0, 0]),
    "two rows": (np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1]]), [0, 1]),
    "two equal rows": (np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]), [0, 1]),
}


@every
@pytest.mark.parametrize("edge", EDGES)
def test_edges_of_probability(kind, edge):
    P, y = EDGES[edge]
    model = make(kind, classes=[0, 1, 2]).fit(P, y)
    honest(model)
    others = np.array(
        [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [5e-324, 0, 1], [2**-53, 1 - 2**-53, 0], [0.6, 0.3, 0.1]]
    )
    for rows in (P, others, others.astype(np.float32)):
        proper(model.predict_proba(rows), rows.shape)


@every
@pytest.mark.parametrize("classes", [2, 3])
def test_far_logits(kind, classes):
    rng = np.random.default_rng(classes)
    z = rng.choice([-1e5, 0.0, 1e5], (30, classes)) + rng.normal(size=(30, classes))
    y = np.where(rng.random(30) < 0.7, z.argmax(axis=1), rng.integers(0, classes, 30))
    y[:classes] = np.arange(classes)
    model = make(kind, from_logits=True).fit(z, y)
    honest(model)
    proper(model.predict_proba(z), z.shape)
    proper(model.predict_proba(-z), z.shape)
    proper(make(kind, from_logits=True).fit(*world(60, classes)).predict_proba(z), z.shape)


@every
def test_a_thousand_classes_and_few_rows(kind):
    z, _ = world(24, 1000)
    model = make(kind, from_logits=True, classes=range(1000)).fit(z, np.arange(24) % 6)
    proper(model.predict_proba(z), z.shape)
    honest(model)


@every
def test_one_row_is_refused_and_two_are_not(kind):
    for rows in (1, 2):
        with pytest.raises(InputError, match=r"`y`.*two classes"):
            make(kind).fit([[0.7, 0.3]] * rows, [0] * rows)
    with pytest.raises(InputError, match=r"`y`.*two classes"):
        make(kind).fit([[0.7, 0.3], [0.4, 0.6]], [0, 1], sample_weight=[1, 0])
    proper(make(kind).fit([[0.7, 0.3], [0.4, 0.6]], [0, 1]).predict_proba([[0.5, 0.5]]), (1, 2))


@every
def test_bad_rows_are_named(kind):
    P, y = softmax(world(30)[0]), world(30)[1]
    for value in (np.nan, np.inf, -np.inf):
        for from_logits in (False, True):
            bad = P.copy()
            bad[7, 1] = value
            with pytest.raises(InputError, match=r"`P`: .*\(row 7: "):
                make(kind, from_logits=from_logits).fit(bad, y)
            with pytest.raises(InputError, match=r"`P`: .*\(row 7: "):
                make(kind, from_logits=from_logits).fit(P, y).predict_proba(bad)
        labels = y.astype(float)
        labels[3] = value
        with pytest.raises(ValueError, match=r"\by\b"):
            make(kind).fit(P, labels)
        with pytest.raises(ValueError, match="sample_weight"):
            make(kind).fit(P, y, np.where(np.arange(30) == 5, value, 1.0))
    for weights in (np.full(30, -1.0), np.zeros(30), np.ones(29), np.ones((30, 1))):
        with pytest.raises(ValueError, match=r"(?i)sample.weight"):
            make(kind).fit(P, y, weights)
    low = P.copy()
    low[4] *= 0.94
    with pytest.raises(InputError, match=r"`P`: a row must sum to 1 .*row 4: sums to 0.94"):
        make(kind).fit(low, y)
    negative = P.copy()
    negative[2, :2] = -0.1, 1.1 - P[2, 2]
    with pytest.raises(InputError, match=r"`P`: .*\(row 2:"):
        make(kind).fit(negative, y)
    for shift in (1e-6, -1e-6):
        proper(make(kind).fit(P * (1 + shift), y).predict_proba(P * (1 + shift)), P.shape)
    with pytest.raises(InputError, match=r"`P`: .*\(row 4: "):
        make(kind).fit(P, y).predict_proba(low)
    with pytest.raises(ValueError, match="features"):
        make(kind).fit(P, y).predict_proba(P[:, :2])
    with pytest.raises(InputError, match=r"`P`: .*\(row 0: "):
        make(kind, from_logits=True).fit(np.array([[0.0, 2.0**21], [1.0, 0.0]]), [0, 1])


@every
def test_bad_classes_are_named(kind):
    P, y = softmax(world(30)[0]), world(30)[1]
    for classes, argument in (
        ([0, 1, 7], "y"),
        ([0, 1, 1], "classes"),
        ([0], "classes"),
        ([0, 1, 2, 3, 4], "classes"),
    ):
        with pytest.raises(InputError) as raised:
            make(kind, classes=classes).fit(P, y)
        assert raised.value.argument == argument
    for labels in ([None] * 30, [[0, 1]] * 30, np.linspace(0, 1, 30), y[:20]):
        with pytest.raises(ValueError, match=r"\by\b|None|inconsistent|label"):
            make(kind).fit(P, labels)


# --- promises


@every
def test_the_argmax_of_accuracy_preserving_calibrators(kind):
    z, y = world(100, 4)
    model = make(kind, from_logits=True).fit(z, y)
    if not model.accuracy_preserving:
        return
    rng = np.random.default_rng(0)
    rows = rng.normal(scale=4, size=(600, 4))
    rows[:100] = rows[:100].round()  # ties
    # all but ties
    rows[100:200] = 1 + np.array([0, 2**-52, -(2**-53), 2**-51])[rng.integers(0, 4, (100, 4))]
    rows[200:300] *= 1e4
    rows[300:400] = 0
    rows[400:500] = rng.choice([-1e5, 1e5], (100, 4))
    np.testing.assert_array_equal(model.predict_proba(rows).argmax(axis=1), rows.argmax(axis=1))
    p = softmax(rows)
    flat = np.repeat(np.eye(4), 2, axis=0)
    for probs in (p, p.astype(np.float32).astype(np.float64), flat):
        found = make(kind).fit(softmax(z), y).predict_proba(probs)
        np.testing.assert_array_equal(found.argmax(axis=1), probs.argmax(axis=1))


def test_which_calibrators_preserve_accuracy():
    claims = {kind for kind in KINDS if make(kind).accuracy_preserving}
    assert claims == {
        *(
            "Chain-0",
            "EnsembleTemperature-0",
            "EnsembleTemperature-1",
            "GroupCalibration-0",
            "IRM-0",
        ),
        *("Identity-0", "PerGroup-0", "TemperatureScaling-0"),
    }


@every
@pytest.mark.parametrize("sharp", [0.2, 1.0, 5.0])
def test_never_worse_without_a_word(kind, sharp):
    for n, classes in ((8, 2), (60, 4)):
        z, y = world(n, classes, seed=n, sharp=sharp)
        model = make(kind, from_logits=True).fit(z, y)
        honest(model)
        probs, rows = model.predict_proba(z), np.arange(n)
        with np.errstate(divide="ignore"):
            after = -np.log(probs[rows, y]).mean()
        assert model.fit_report_.score_after == pytest.approx(after, rel=1e-9, abs=1e-12)
        assert model.fit_report_.score_before == pytest.approx(
            float(pb.log_score(y, z, from_logits=True)), rel=1e-12
        )
        if kind in MINIMISERS:
            assert after <= model.fit_report_.score_before + 1e-9


# --- how rows come in


def test_counted_labels_are_the_sorted_ones():
    rng = np.random.default_rng(0)
    for dtype in (np.int8, np.uint8, np.int64, np.uint64, bool, np.float64, "<U2"):
        labels = rng.integers(0, 100, 50).astype(dtype)
        found = distinct_labels(labels)
        np.testing.assert_array_equal(found, np.unique(labels))
        assert found.dtype == labels.dtype
    for labels in (np.array([-1, 5, -1]), np.array([2**40, 0]), np.array([2**63], np.uint64)):
        np.testing.assert_array_equal(distinct_labels(labels), np.unique(labels))


def test_weights_count_rows():
    assert as_repeats(np.array([2.0, 4.0])).tolist() == [2, 4]
    assert as_repeats(np.array([0.1, 0.3])).tolist() == pytest.approx([0.5, 1.5])
    assert as_repeats(np.full(4, 1e300)).sum() == 2**53
    assert as_repeats(np.full(4, 5e-324)).tolist() == [1, 1, 1, 1]


def test_rounding_does_not_keep_a_search_from_resting():
    """The mean of many rows is known to about 1e-14: near its minimum the slope must decide, not
    the value."""
    for seed in range(12):
        world_ = gaussian_posteriors(500, 3, prior=0.5, seed=seed)
        y, p = np.repeat(world_.y, 10), np.repeat(world_.mcs, 10, axis=0)
        rows = np.random.default_rng(seed).permutation(len(y))[:4000]
        report = calibrators.DirectionPreserving().fit(p[rows], y[rows]).fit_report_
        assert report.converged
        assert int(report.status.split()[-2]) <= 20, report.status


def test_equal_outputs_stay_equal():
    """Sums of tenths are not 1 in binary, in whatever order they are added: to divide by them would
    part equal outputs."""
    P, y = (
        np.array(
            [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]
        ),
        [0, 1, 1, 2, 2],
    )
    knots = calibrators.IRM().fit(P, y).knots_
    assert set(np.unique(knots[0])) <= set(P.ravel())
    np.testing.assert_array_equal(calibrators.Identity().fit(P, y).predict_proba(P), P)


def test_a_frame_with_the_classes_in_another_order_is_refused():
    world = pb.simulate.gaussian_posteriors(300, 3, seed=0)
    names = np.array(["cat", "dog", "owl"])
    frame, y = pd.DataFrame(world.mcs, columns=names), names[world.y]
    odd, words = (
        frame[["owl", "cat", "dog"]],
        r"`P`: columns must be in the order of the classes.* \(found: owl, cat, dog\)",
    )
    with pytest.raises(pb.InputError, match=words):
        calibrators.TemperatureScaling().fit(odd, y)
    for fitted in (calibrators.TemperatureScaling().fit(P, y) for P in (frame, world.mcs)):
        with pytest.raises(pb.InputError, match=words):
            fitted.predict_proba(odd)
    with pytest.raises(pb.InputError, match="found: owl, dog"):  # the first class left out
        calibrators.TemperatureScaling(classes=names).fit(frame[["owl", "dog"]], y)
    found = (
        calibrators.TemperatureScaling(classes=["owl", "cat", "dog"]).fit(odd, y).predict_proba(odd)
    )
    expected = calibrators.TemperatureScaling().fit(frame, y).predict_proba(frame)
    np.testing.assert_allclose(found, expected[:, [2, 0, 1]], rtol=1e-6)
