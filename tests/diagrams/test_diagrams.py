"""Reliability, sharpness, smooth and classwise curves, and score intervals show the estimates."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

import probaudit as pb
from probaudit import diagrams
from probaudit.calibration.fine_grid import FineGrid
from probaudit.calibration.views import grids_of
from probaudit.diagrams.reliability import binomial_range
from probaudit.diagrams.vega_drawer import spec
from probaudit.engines.good_rows import survey
from probaudit.scoring.intervals import wilson
from probaudit.states import CELLS
from probaudit.text import number
from tests.calibration.grid_tests import grid_test
from tests.conftest import softmax


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(3000, 4, seed=3)


@pytest.fixture(scope="module")
def rows(world):
    return world.y, world.mcs


def load(shared, name):
    with np.load(shared / "data" / f"{name}.npz") as stored:
        return stored["labels"], softmax(stored["logits"].astype(np.float64))


PARTITIONS = [
    pb.EqualWidth(15),
    pb.EqualWidth(7),
    pb.EqualMass(10),
    pb.Edges([0, 0.5, 0.6, 0.9, 1]),
]


@pytest.mark.parametrize("partition", PARTITIONS, ids=repr)
@pytest.mark.parametrize("lens", [pb.TopLabel(), pb.OneVsRest(2)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_reliability_is_the_calibration_error(rows, partition, lens, weighted):
    y, p = rows
    weights = np.random.default_rng(0).gamma(2, size=len(y)) if weighted else None
    found = diagrams.reliability_diagram(y, p, lens=lens, bins=partition, sample_weight=weights)
    error = pb.calibration_error(y, p, lens=lens, partition=partition, sample_weight=weights)
    assert found.error == float(error)
    assert (found.share * np.abs(found.stated - found.observed)).sum() == pytest.approx(
        float(error), rel=1e-12
    )
    (cells,) = error.cells
    assert np.array_equal(found.rows, cells.rows)
    assert found.rows.sum() == len(y)
    assert (found.rows > 0).all()
    assert ((found.low <= found.observed) & (found.observed <= found.high)).all()
    assert ((found.left <= found.stated) & (found.stated <= found.right)).all()
    assert (found.left[1:] >= found.right[:-1] - 1e-12).all()
    assert found.histogram[2].sum() == len(y)
    assert (found.histogram[2] > 0).all()


def test_reliability_has_the_null_of_the_test(rows):
    for partition in PARTITIONS:
        test = pb.calibration_test(*rows, partition=partition)
        found = diagrams.reliability_diagram(*rows, bins=partition)
        assert (found.null_mean, found.null_high, found.p_value) == (
            test.null_mean,
            test.null_high,
            test.p_value,
        )


def test_a_number_of_bins_means_equal_width(rows):
    found = diagrams.reliability_diagram(*rows, bins=10)
    assert found.error == float(pb.calibration_error(*rows, partition=pb.EqualWidth(10)))
    assert np.allclose(found.right - found.left, 0.1)
    assert np.array_equal(found.histogram[2], found.rows)


@pytest.mark.parametrize("bins", [15, pb.EqualMass(12), "corp"], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_reliability_of_a_grid_is_that_of_the_rows(bins, weighted):
    """Outputs at the middles of the grid's cells, so that the grid loses nothing."""
    rng = np.random.default_rng(0)
    p = (rng.integers(0, CELLS, 3000) + 0.5) / CELLS
    weights = rng.gamma(2, size=3000) if weighted else None
    predictions = pb.Predictions((rng.random(3000) < p**2).astype(int), p, sample_weight=weights)
    (grid,) = grids_of(predictions, pb.Binary())
    found = diagrams.Reliability.of_grid(grid, bins, event="class 1", resamples=99)
    exact = diagrams.reliability_diagram(predictions, lens=pb.Binary(), bins=bins, resamples=99)
    assert np.array_equal(found.rows, exact.rows)
    for name in (
        "stated",
        "observed",
        "low",
        "high",
        "chance_low",
        "chance_high",
        "share",
        "error",
    ):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), abs=1e-9), name
    if bins != "corp":
        null = grid_test(grid, pb.EqualWidth(15) if bins == 15 else bins, resamples=99)
        assert (found.error, found.null_mean, found.p_value) == (
            null.value,
            null.null_mean,
            null.p_value,
        )


def test_a_grid_without_squared_weights_raises(rows):
    y, p = rows
    grid = survey(pb.Predictions(y, p, sample_weight=np.linspace(0.1, 1, len(y)))).summary.grid
    with pytest.raises(pb.InputError, match="squared weights"):
        diagrams.Reliability.of_grid(FineGrid.of_summary(grid))


@pytest.mark.parametrize("lens", [pb.TopLabel(), pb.OneVsRest(0)], ids=repr)
def test_corp_is_isotonic_regression(rows, lens):
    from sklearn.isotonic import IsotonicRegression

    y, p = rows
    p = p.round(9)  # scikit-learn takes outputs within 1e-15 for equal
    weights = np.random.default_rng(1).gamma(2, size=len(y))
    found = diagrams.reliability_diagram(
        y, p, lens=lens, bins="corp", sample_weight=weights, resamples=50
    )
    split = pb.score_decomposition(y, p, lens=lens, sample_weight=weights)
    assert found.error == pytest.approx(split.miscalibration, abs=1e-12)
    view = lens.view(p, y)
    fit = IsotonicRegression().fit(view.outputs, view.labels, sample_weight=weights)
    assert np.interp(view.outputs, *found.curve) == pytest.approx(
        fit.predict(view.outputs), abs=1e-9
    )
    assert (np.diff(found.observed) > 0).all()
    assert found.rows.sum() == len(y)
    x, low, high = found.band
    assert ((low <= x + 0.2) & (x - 0.2 <= high) & (low <= high)).all()


@pytest.mark.parametrize("bins", [10, pb.EqualMass(10), "corp"], ids=repr)
def test_calibrated_models_stay_within_the_limits(bins):
    """Labels are drawn from the outputs: nearly all bins lie within their limits, and p-values are
    not extreme."""
    rng, outside, total, small = np.random.default_rng(5), 0, 0, 0
    for _ in range(40):
        p = rng.beta(1, 2, 800)
        found = diagrams.reliability_diagram(
            rng.random(800) < p, p, lens=pb.Binary(), bins=bins, resamples=59
        )
        outside, total = outside + int((found.verdict != "").sum()), total + len(found.rows)
        small += found.p_value <= 0.05
    # 5%, less for discreteness; of 400 bins, or some 600 steps, more is unlikely
    assert outside / total < 0.08
    assert small <= 8  # of 40 at 5%: more has probability 3e-4


def test_corp_null_with_many_distinct_outputs():
    rng, small = np.random.default_rng(6), 0
    for _ in range(8):
        p = rng.beta(0.5, 0.5, 40_000)
        found = diagrams.reliability_diagram(
            rng.random(40_000) < p, p, lens=pb.Binary(), bins="corp", resamples=39
        )
        small += found.p_value <= 0.05
    assert small <= 3  # more of 8 at 5% has probability 4e-4


def test_miscalibrated_outputs_are_detected(rows):
    y, p = rows  # overconfident
    found = diagrams.reliability_diagram(y, p)
    assert "high" in found.verdict
    assert found.p_value <= 0.01
    assert "predicted too high" in {mark.name for mark in found.picture().panels[0].marks}
    turned = diagrams.reliability_diagram(
        1 - np.ones(500, int), np.full(500, 0.4), lens=pb.Binary()
    )
    assert turned.verdict.tolist() == ["high"]
    assert diagrams.reliability_diagram(
        np.ones(500, int), np.full(500, 0.4), lens=pb.Binary()
    ).verdict.tolist() == ["low"]


def test_wilson_and_binomial_ranges():
    low, high = wilson(np.array([0.0, 0.5, 1.0]), np.array([10.0, 10.0, 10.0]))
    # statsmodels 0.14 proportion_confint(count, 10, method="wilson") for 0, 5 and 10
    assert low == pytest.approx([0, 0.2365931, 0.7224672], abs=1e-6)
    assert high == pytest.approx([0.2775328, 0.7634069, 1], abs=1e-6)
    from scipy.stats import binom

    rng = np.random.default_rng(0)
    n, p = rng.integers(1, 10**6, 300).astype(float), rng.random(300)
    p[:4], n[4:8] = (0, 1, 5e-324, 1 - 2**-53), 1
    low, high = binomial_range(p, n)
    assert low * n == pytest.approx(binom.ppf(0.025, n, p).clip(0), abs=1e-6)
    assert high * n == pytest.approx(binom.ppf(0.975, n, p).clip(0), abs=1e-6)


EDGES = {
    "one row": ([1], [[0.3, 0.7]], {}),
    "one row, wrong": ([0], [[0.3, 0.7]], {}),
    "two rows": ([1, 0], [[0.3, 0.7], [0.6, 0.4]], {}),
    "one class seen": (
        [1] * 20,
        np.column_stack([1 - np.linspace(0, 1, 20), np.linspace(0, 1, 20)]),
        {},
    ),
    "constant": ([0, 1] * 30, np.full((60, 2), 0.5), {}),
    "sure": ([0, 1, 0, 1], [[1, 0], [0, 1], [1, 0], [0, 1]], {}),
    "sure and wrong": ([1, 0, 0, 1], [[1, 0], [0, 1], [1, 0], [0, 1]], {}),
    "on bin edges": (
        [0, 1, 2] * 5,
        np.tile([[0.2, 0.2, 0.6], [0.4, 0.4, 0.2], [1, 0, 0]], (5, 1)),
        {},
    ),
    "subnormal": ([0, 1, 1], [[1, 5e-324], [2**-53, 1 - 2**-53], [0.5, 0.5]], {}),
    "weights": (
        [0, 1, 1, 0],
        [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]],
        {"sample_weight": [0, 1e300, 1e299, 1e300]},
    ),
    "strings": (["b", "a", "b"], [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]], {"classes": ["a", "b"]}),
    "float16": ([0, 1, 1], np.array([[0.5, 0.5], [0.25, 0.75], [0.125, 0.875]], np.float16), {}),
}
FUNCTIONS = {
    "reliability": diagrams.reliability_diagram,
    "equal mass": lambda *a, **o: diagrams.reliability_diagram(*a, bins=pb.EqualMass(5), **o),
    "corp": lambda *a, **o: diagrams.reliability_diagram(*a, bins="corp", **o),
    "sharpness": diagrams.calibration_sharpness_diagram,
    "sharpness, log": lambda *a, **o: diagrams.calibration_sharpness_diagram(*a, score="log", **o),
    "smooth": diagrams.smooth_calibration_diagram,
    "class-wise": diagrams.classwise_diagram,
    "scores": diagrams.score_intervals_diagram,
}


@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges(name, case):
    """Every diagram can be drawn for every edge case, and its numbers are finite where required."""
    y, p, options = EDGES[case]
    found = FUNCTIONS[name](y, p, **options)
    columns = found.columns()
    assert len({len(column) for column in columns.values()}) == 1
    if "rows" in columns:
        assert (columns["rows"] >= 0).all()
    if "predicted" in columns:
        assert np.isfinite(columns["predicted"]).all()
        assert np.isfinite(columns["observed"]).all()
    assert found.picture().description
    found.plot()
    json.dumps(spec(found.picture()), allow_nan=False)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_rows_raise(name):
    for y, p in (
        ([0, 1], [[0.5, 0.4], [0.5, 0.5]]),
        ([0, 1], [[np.nan, 1], [0.5, 0.5]]),
        ([], np.zeros((0, 2))),
        ([0], [[1.1]]),
    ):
        with pytest.raises(pb.InputError):
            FUNCTIONS[name](y, p)


def test_invalid_arguments_raise(rows):
    bad = [
        lambda: diagrams.reliability_diagram(*rows, bins="isotonic"),
        lambda: diagrams.reliability_diagram(*rows, bins=0),
        lambda: diagrams.reliability_diagram(*rows, bins=True),
        lambda: diagrams.reliability_diagram(*rows, bins=pb.KDTree()),
        lambda: diagrams.reliability_diagram(*rows, resamples=0),
        lambda: diagrams.reliability_diagram(*rows, lens=pb.Classwise()),
        lambda: diagrams.reliability_diagram(*rows, lens=pb.Full()),
        lambda: diagrams.smooth_calibration_diagram(*rows, lens=pb.Full()),
        lambda: diagrams.smooth_calibration_diagram(*rows, sigma=0),
        lambda: diagrams.smooth_calibration_diagram(*rows, resamples=0),
        lambda: diagrams.calibration_sharpness_diagram(*rows, score="cost"),
        lambda: diagrams.calibration_sharpness_diagram(*rows, bandwidth=0),
        lambda: diagrams.calibration_sharpness_diagram(*rows, kernel="box"),
        lambda: diagrams.classwise_diagram(*rows, most=0),
        lambda: diagrams.classwise_diagram(*rows, order="first"),
        lambda: diagrams.classwise_diagram(*rows, bins="corp"),
        lambda: diagrams.ScoreIntervals.of({}),
        lambda: diagrams.ScoreIntervals.of({"a": pb.Estimate(1.0)}, {"b": pb.Estimate(1.0)}),
    ]
    for place, call in enumerate(bad):
        with pytest.raises(pb.InputError):
            pytest.fail(f"call {place} gave {call()!r}")


def test_sharpness_is_the_kernel_estimates(rows):
    found = diagrams.calibration_sharpness_diagram(*rows, bandwidth=0.07, score="log")
    curve = pb.kernel_calibration_curve(*rows, x=found.confidence, bandwidth=0.07, score="log")
    for name, other in (
        ("accuracy", "regression"),
        ("density", "density"),
        ("sharpness_gap", "sharpness_gap"),
    ):
        assert np.array_equal(getattr(found, name), getattr(curve, other)), name
    assert found.calibration == float(
        pb.kernel_calibration_error(*rows, bandwidth=0.07, score="log")
    )
    assert found.total == pytest.approx(float(pb.log_score(*rows)), rel=1e-9)
    low, high = found.band
    inside = low > 0
    assert (high - low)[inside] == pytest.approx(found.sharpness_gap[inside], rel=1e-9)
    assert (low >= 0).all()


def test_sharpness_against_the_reference(shared):
    """sharpcal at 87c5f73 (see golden/README.md): TOT, CAL, and the curve at 11 confidences."""
    for name, case in json.loads((shared / "golden" / "h_sharpcal.json").read_text())[
        "cases"
    ].items():
        found = diagrams.calibration_sharpness_diagram(*load(shared, name))
        assert found.total == pytest.approx(case["gauss_0.05"]["total_brier"], abs=1e-9), name
        assert found.calibration == pytest.approx(case["gauss_0.05"]["cal"], rel=1e-3), name
        at, curve = (
            found.confidence.searchsorted(np.array(case["curve_bw0.05"]["x"]) - 1e-9),
            case["curve_bw0.05"],
        )
        thick = np.array(curve["kde"]) > 1e-6
        for column, key in (
            (found.accuracy, "reg"),
            (found.density, "kde"),
            (found.sharpness_gap, "sharpness_gap"),
        ):
            assert column[at][thick] == pytest.approx(np.array(curve[key])[thick], rel=5e-3), (
                name,
                key,
            )
        caption = found.picture().caption
        assert f"calibration error (CAL) is {number(found.calibration, 3)}" in caption
        assert f"the loss of all classes (TOT) is {number(found.total, 3)}" in caption
        assert f"would have a CAL of {number(found.expected, 3)}" in caption


def test_aligned_panels_name_every_mark():
    """The outputs of the first model are too high everywhere, those of the second too low."""
    p = np.linspace(0.6, 0.9, 4000)
    rng = np.random.default_rng(0)
    rows = [
        pb.Predictions.from_confidence(p, rng.random(4000) < p + shift) for shift in (-0.3, 0.09)
    ]
    grids = {f"model {k}": grids_of(one, pb.TopLabel())[0] for k, one in enumerate(rows)}
    picture = diagrams.AlignedReliability.of_grids(
        grids, resamples=20, event="the confidence"
    ).picture()
    names = {mark.name for panel in picture.panels for mark in panel.marks}
    assert {"predicted too high", "predicted too low"} <= names
    assert "of the confidence" in picture.description


def test_a_budget_shows_no_rounding_errors():
    part = pb.Estimate(1e-33, low=-1e-18, high=1e-18)
    total = pb.Estimate(0.1, low=0.09, high=0.11)
    known = {"score_words": lambda pairs: "Brier score of the confidence", "after": None}
    budget = SimpleNamespace(
        total=total, left=pb.Estimate(-1e-17), grouping=part, rest=total, relative=False, **known
    )
    found = diagrams.LossBudget.of_budget(budget, pairs=True)
    assert [row.text for row in found.rows] == ["0.100", "0.000", "0.000", "0.100"]
    assert [row.share for row in found.rows] == [1, 0, 0, 1]
    picture = found.picture()
    shown = [mark.text for mark in picture.panels[0].marks if hasattr(mark, "text")]
    assert shown == ["0.100", "the rest: 0.100 (0.090 to 0.110)"]
    assert (
        "The loss due to calibration error and hidden groups is not clearly above 0."
        in picture.caption
    )
    assert "Brier score of the confidence" in picture.caption


def test_an_infinite_log_score_is_reported():
    found = diagrams.calibration_sharpness_diagram(
        [0, 1, 1], [[0, 1], [0.1, 0.9], [0.4, 0.6]], score="log"
    )
    assert math.isinf(found.total)
    assert math.isinf(found.calibration)
    assert np.isfinite(found.sharpness_gap).all()
    assert "(TOT) is infinite, as 1 row gave" in found.picture().caption
    scores = diagrams.score_intervals_diagram([0, 1, 1], [[0, 1], [0.1, 0.9], [0.4, 0.6]])
    assert any("infinite" in getattr(mark, "text", "") for mark in scores.picture().panels[0].marks)


@pytest.mark.parametrize("lens", [pb.TopLabel(), pb.OneVsRest(1)], ids=repr)
def test_smooth_curve_is_the_kernel_regression_at_the_width_of_smooth_ece(rows, lens):
    y, p = rows
    weights = np.random.default_rng(2).gamma(2, size=len(y))
    found = diagrams.smooth_calibration_diagram(y, p, lens=lens, sample_weight=weights)
    assert found.error == float(pb.smooth_calibration_error(y, p, lens=lens, sample_weight=weights))
    assert found.width == pytest.approx(found.error, abs=1e-6)
    view = lens.view(p, y)
    images = np.concatenate([-view.outputs, view.outputs, 2 - view.outputs])  # mirrored at 0 and 1
    kernel = np.tile(weights, 3) * np.exp(
        -(((found.stated[:, None] - images) / found.width) ** 2) / 2
    )
    assert found.observed == pytest.approx(
        kernel @ np.tile(view.labels, 3) / kernel.sum(axis=1), abs=2e-3
    )
    density = kernel.sum(axis=1) / (weights.sum() * found.width * math.sqrt(2 * math.pi))
    assert found.density == pytest.approx(density, rel=5e-3)
    assert ((found.low <= found.observed) & (found.observed <= found.high)).mean() > 0.97
    assert (found.high - found.low).max() > 0.01


def test_smooth_band_covers_the_truth():
    """The pointwise 95% band of a calibrated model contains the diagonal on about 95% of the curve.
    Smoothing adds no bias here."""
    rng, share = np.random.default_rng(7), []
    for seed in range(30):
        p = rng.uniform(0.2, 0.8, 1000)
        found = diagrams.smooth_calibration_diagram(
            rng.random(1000) < p, p, lens=pb.Binary(), sigma=0.03, seed=seed
        )
        middle = (found.stated > 0.3) & (found.stated < 0.7)
        share.append(((found.low <= found.stated) & (found.stated <= found.high))[middle].mean())
    # measured .94; the standard error over 30 worlds is below .01
    assert 0.9 < np.mean(share) < 0.985


def test_a_gap_of_outputs_breaks_the_curve():
    p = np.r_[np.full(50, 0.1), np.full(50, 0.9)]
    found = diagrams.smooth_calibration_diagram(
        np.r_[np.zeros(50, int), np.ones(50, int)], p, lens=pb.Binary(), sigma=0.02
    )
    assert not ((found.stated > 0.3) & (found.stated < 0.7)).any()
    curve = found.picture().panels[0].marks[-1]
    assert np.isnan(curve.y).any()


def test_classwise_is_one_reliability_per_class(rows):
    y, p = rows
    per_class = pb.calibration_error(y, p, lens=pb.Classwise()).per_class  # 15 equal bins
    found = diagrams.classwise_diagram(y, p)
    assert found.of == len(found.each) == 4
    for name, one in zip(found.classes, found.each, strict=True):
        assert one.error == pytest.approx(per_class[int(name)], abs=1e-9)
        assert one.rows.sum() == len(y)
    errors = [one.error for one in found.each]
    assert errors == sorted(errors, reverse=True)
    largest = diagrams.classwise_diagram(y, p, order="largest", most=2)
    assert largest.classes == tuple(str(k) for k in np.argsort(-np.bincount(y), kind="stable")[:2])
    assert "the 2 largest of 4" in largest.picture().title
    assert len(largest.picture().panels) == 2
    assert set(largest.columns()["class"]) == set(largest.classes)


def test_score_intervals_are_the_scores(rows):
    found = diagrams.score_intervals_diagram(*rows)
    for place, score in enumerate((pb.log_score, pb.brier_score)):
        plain, normalised = score(*rows), score(*rows, normalize=True)
        assert (found.value[place], found.low[place], found.high[place]) == (
            float(plain),
            *plain.interval,
        )
        assert (found.normalised[place], found.normalised_low[place]) == (
            float(normalised),
            normalised.low,
        )
    y, p = rows
    assert found.value[2] == pytest.approx((p.argmax(axis=1) != y).mean())
    costs = [[0, 1, 1, 1], [5, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]
    assert diagrams.score_intervals_diagram(*rows, costs=costs).value[2] == float(
        pb.bayes_risk(*rows, costs=costs)
    )
    own = diagrams.ScoreIntervals.of(
        {"a": pb.Estimate(0.3, low=0.2, high=0.4), "b": pb.Estimate(0.5)}
    )
    assert len(own.picture().panels) == 1
    assert np.isnan(own.normalised).all()


def test_confidence_and_correctness():
    rng = np.random.default_rng(0)
    confidence = rng.random(300)
    pairs = pb.Predictions.from_confidence(confidence, rng.random(300) < confidence)
    found = diagrams.reliability_diagram(pairs)
    assert found.error == float(pb.calibration_error(pairs))
    assert found.event == "the confidence"
    assert diagrams.smooth_calibration_diagram(pairs).n == 300
    with pytest.raises(pb.InputError, match="must be class probabilities"):
        diagrams.classwise_diagram(pairs)


def test_events_are_named():
    y, p = ["cat", "dog"], [[0.7, 0.3], [0.2, 0.8]]

    def name(lens):
        return diagrams.reliability_diagram(y, p, lens=lens, classes=["cat", "dog"]).event

    assert name(None) == "class dog"
    assert name(pb.TopLabel()) == "the most probable class"
    assert name(pb.Binary()) == "class dog"
    assert name(pb.OneVsRest(0)) == "class cat"


def test_thin_bins_have_neither_a_verdict_nor_a_coloured_mark():
    """Five rows at 90%, none of which happen, beside 2,000 calibrated rows."""
    rng = np.random.default_rng(0)
    p = np.r_[rng.uniform(0, 0.6, 2000), np.full(5, 0.9)]
    y = np.r_[(rng.random(2000) < p[:2000]).astype(int), np.zeros(5, int)]
    found = diagrams.reliability_diagram(y, p, bins=10, resamples=9)
    assert found.observed[-1] < found.chance_low[-1]
    assert found.columns()["verdict"][-1] == ""
    (thin,) = (mark for mark in found.picture().panels[0].marks if mark.role == "thin")
    np.testing.assert_allclose(thin.x, [0.9])
    assert thin.hollow
