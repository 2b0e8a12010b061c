"""Isotonic, binning, beta, Dirichlet, Gaussian process, mean replacement and prior correction:
laws, edges, known answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from probaudit.calibrators.beta import BetaCalibration
from probaudit.calibrators.binning import BBQ, HistogramBinning
from probaudit.calibrators.dirichlet import DirichletCalibration
from probaudit.calibrators.fitting import affine_softmax
from probaudit.calibrators.gaussian_process import GaussianProcessCalibration
from probaudit.calibrators.isotonic import IRM, IsotonicCalibration
from probaudit.calibrators.mean_replacement import MeanReplacement
from probaudit.calibrators.priors import PriorCorrection
from probaudit.errors import InputError
from tests.conftest import softmax

FAMILIES = {
    "isotonic": IsotonicCalibration,
    "isotonic plain": lambda **choices: IsotonicCalibration(finite=False, **choices),
    "irm": IRM,
    "irm loose": lambda **choices: IRM(strict=False, **choices),
    "histogram": HistogramBinning,
    "histogram mass": lambda **choices: HistogramBinning(equal="mass", **choices),
    "bbq": BBQ,
    "bbq netcal": lambda **choices: BBQ(weighting="bic", equal="width", **choices),
    "beta": BetaCalibration,
    "beta am": lambda **choices: BetaCalibration(parameters="am", **choices),
    "beta ab": lambda **choices: BetaCalibration(parameters="ab", **choices),
    "dirichlet": DirichletCalibration,
    "gaussian process": GaussianProcessCalibration,
    "mean replacement": MeanReplacement,
    "priors": PriorCorrection,
}
MINIMISE_LOG_SCORE = ["beta", "beta am", "beta ab", "dirichlet", "gaussian process"]
each_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())


def world(n, classes, seed=0, temperature=2.0):
    """Logits that are `temperature` times too large, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=1.5, size=(n, classes))
    y = (softmax(z).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1)
    return z * temperature, y


def check_probabilities(q, shape):
    assert q.shape == shape
    assert q.dtype == np.float64
    assert np.isfinite(q).all()
    assert (q >= 0).all()
    assert (q <= 1).all()
    assert np.abs(q.sum(axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if name not in ("beta am", "bbq netcal")]
)
def test_scikit_learn_contract(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks that are skipped warn
        results = check_estimator(FAMILIES[name](from_logits=True), on_fail=None)
    assert not [
        (result["check_name"], result["exception"])
        for result in results
        if result["status"] == "failed"
    ]


@each_family
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_probabilities_come_out(make, classes):
    z, y = world(400, classes)
    fit = make(from_logits=True).fit(z, y)
    new, _ = world(300, classes, seed=1, temperature=10.0)
    check_probabilities(fit.predict_proba(new), (300, classes))
    assert fit.fit_report_.n == 400
    assert fit.fit_report_.status
    assert set(fit._fitted) <= set(vars(fit))


@each_family
def test_everything_learned_is_listed(make):
    """What is saved, choices, `_fitted`, classes and columns, is enough to predict; and it is
    plain."""
    z, y = world(200, 3)
    fit = make(from_logits=True).fit(z, y)
    again = type(fit)(**fit.get_params())
    for name in (*fit._fitted, "classes_", "n_features_in_"):
        value = getattr(fit, name)
        plain = value if isinstance(value, list) else [value]
        assert all(isinstance(item, (float, int, np.ndarray)) for item in plain), name
        assert all(np.isfinite(item).all() for item in plain), name
        setattr(again, name, value)
    assert np.array_equal(again.predict_proba(z), fit.predict_proba(z))


@each_family
@pytest.mark.parametrize("classes", [2, 4])
def test_weights_are_repeats(make, classes):
    z, y = world(150, classes)
    weights = np.random.default_rng(1).integers(0, 4, 150)
    weighted = make(from_logits=True).fit(z, y, weights)
    repeated = make(from_logits=True).fit(z.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.predict_proba(z) == pytest.approx(repeated.predict_proba(z), abs=1e-6)


@each_family
def test_rows_of_no_weight_are_absent(make):
    z, y = world(120, 3)
    kept = np.random.default_rng(2).random(120) < 0.7
    without = make(from_logits=True).fit(z[kept], y[kept])
    with_zero = make(from_logits=True).fit(z, y, kept.astype(float))
    assert with_zero.predict_proba(z) == pytest.approx(without.predict_proba(z), abs=1e-9)


@each_family
def test_weights_may_be_huge_or_sum_to_one(make):
    z, y = world(100, 3)
    plain = make(from_logits=True).fit(z, y)
    check_probabilities(
        make(from_logits=True).fit(z, y, np.full(100, 1e300)).predict_proba(z), z.shape
    )
    shares = make(from_logits=True).fit(z, y, np.full(100, 0.01))
    assert shares.predict_proba(z) == pytest.approx(plain.predict_proba(z), abs=1e-7)


@each_family
def test_order_of_rows_and_classes(make):
    z, y = world(200, 4)
    names = np.array(["d", "a", "c", "b"])
    fit = make(from_logits=True, classes=names).fit(z, names[y])
    expected = make(from_logits=True).fit(z, y).predict_proba(z)
    assert fit.predict_proba(z) == pytest.approx(expected, abs=1e-12)
    assert fit.predict(z).dtype == names.dtype
    order = np.random.default_rng(3).permutation(200)
    assert make(from_logits=True).fit(z[order], y[order]).predict_proba(z) == pytest.approx(
        expected, abs=1e-6
    )
    columns = np.array([2, 0, 3, 1])
    turned = make(from_logits=True, classes=columns).fit(z[:, columns], y)
    assert turned.predict_proba(z[:, columns]) == pytest.approx(expected[:, columns], abs=1e-5)


@each_family
def test_a_missing_class_keeps_its_column(make):
    z, y = world(300, 4)
    kept = y != 2
    fit = make(from_logits=True, classes=range(4)).fit(z[kept], y[kept])
    new, _ = world(100, 4, seed=5)
    q = fit.predict_proba(new)
    check_probabilities(q, (100, 4))
    if not isinstance(fit, (IRM, GaussianProcessCalibration, MeanReplacement, PriorCorrection)):
        assert q[:, 2] == pytest.approx(softmax(new)[:, 2], abs=1e-9)
        assert "no rows" in fit.fit_report_.status


@each_family
def test_exact_zeros_and_ones(make):
    P = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    y = [0, 1, 2, 1, 0, 2]
    fit = make().fit(P, y)
    check_probabilities(fit.predict_proba(P), P.shape)
    new = np.array([[1 - 2**-53, 2**-53, 0], [5e-324, 1, 0], [1 / 3, 1 / 3, 1 / 3]])
    check_probabilities(fit.predict_proba(new), new.shape)
    binary = make().fit(
        [[1, 0], [0, 1], [1, 0], [0, 1], [0.5, 0.5], [0.2, 0.8]], [0, 1, 1, 1, 0, 1]
    )
    check_probabilities(binary.predict_proba([[1, 0], [0, 1], [0.5, 0.5]]), (3, 2))


@each_family
@pytest.mark.parametrize("classes", [2, 5])
def test_far_logits(make, classes):
    z, y = world(60, classes)
    z[::7] *= 1e4
    fit = make(from_logits=True).fit(z, y)
    new = np.random.default_rng(0).choice([-1e5, 0, 1e5], (50, classes))
    check_probabilities(fit.predict_proba(new), new.shape)
    check_probabilities(fit.predict_proba(z), z.shape)


@each_family
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_formats(make, dtype):
    z, y = world(200, 3)
    P = softmax(z).astype(dtype)
    check_probabilities(make().fit(P, y.astype(np.uint8)).predict_proba(P), P.shape)


@each_family
def test_constant_outputs(make):
    y = np.array([0, 1, 1, 2] * 10)
    P = np.full((40, 3), 1 / 3)
    q = make().fit(P, y).predict_proba(P)
    check_probabilities(q, P.shape)
    if isinstance(make(), (IsotonicCalibration, HistogramBinning, BetaCalibration)) and not getattr(
        make(), "finite", False
    ):
        free = getattr(make(), "parameters", "") != "ab"
        assert not free or q[0] == pytest.approx([0.25, 0.5, 0.25], abs=1e-6)


@each_family
def test_two_rows(make):
    check_probabilities(
        make().fit([[0.7, 0.3], [0.4, 0.6]], [0, 1]).predict_proba([[0.5, 0.5]]), (1, 2)
    )
    wide = np.full((2, 30), 1 / 30)
    check_probabilities(make().fit(wide, [3, 17]).predict_proba(wide), (2, 30))


@each_family
def test_a_thousand_classes(make):
    if make is DirichletCalibration:
        pytest.skip("a million weights; test_dirichlet_with_many_classes has forty classes")
    z, y = world(200, 1000)
    fit = make(from_logits=True, classes=range(1000)).fit(z, y % 90)
    check_probabilities(fit.predict_proba(z), z.shape)


@pytest.mark.parametrize("name", MINIMISE_LOG_SCORE)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_log_score_of_the_rows_never_gets_worse(name, temperature):
    for classes in (2, 5):
        z, y = world(300, classes, seed=classes, temperature=temperature)
        report = FAMILIES[name](from_logits=True).fit(z, y).fit_report_
        assert report.converged
        assert report.score_after <= report.score_before + 1e-12


# --- isotonic


def slow_isotonic(p, y, w):
    """max over a <= i of min over b >= i of the mean of rows a..b, at each distinct output (the
    max-min formula)."""
    x = np.unique(p)
    hits = np.array([(w * y)[p == value].sum() for value in x])
    weight = np.array([w[p == value].sum() for value in x])
    mean = np.array(
        [
            [
                hits[a : b + 1].sum() / weight[a : b + 1].sum() if b >= a else np.inf
                for b in range(len(x))
            ]
            for a in range(len(x))
        ]
    )
    return x, np.array([mean[: i + 1, i:].min(axis=1).max() for i in range(len(x))])


def test_pav_is_the_max_min_formula():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(3, 25))
        p, y, w = (
            rng.integers(0, 12, n) / 11,
            rng.integers(0, 2, n),
            rng.integers(1, 5, n).astype(float),
        )
        y[:2] = [0, 1]
        x, expected = slow_isotonic(p, y, w)
        assert IsotonicCalibration(finite=False).fit(p, y, w).predict_proba(x)[
            :, 1
        ] == pytest.approx(expected, abs=1e-12)


def test_isotonic_like_scikit_learn():
    z, y = world(3000, 3)
    p, weights = softmax(z), np.random.default_rng(0).random(3000)
    fit = IsotonicCalibration(finite=False).fit(p, y, weights)
    new = softmax(world(500, 3, seed=1)[0])
    q = np.column_stack(
        [
            IsotonicRegression(out_of_bounds="clip")
            .fit(p[:, k], y == k, weights)
            .predict(new[:, k])
            for k in range(3)
        ]
    )
    assert fit.predict_proba(new) == pytest.approx(q / q.sum(axis=1, keepdims=True), abs=1e-9)


def test_isotonic_is_best_of_monotone_curves_for_every_score():
    z, y = world(500, 2)
    p = softmax(z)
    q = IsotonicCalibration(finite=False).fit(p, y).predict_proba(p)[:, 1]
    others = [p[:, 1] ** power for power in (0.5, 1, 2)] + [
        np.where(p[:, 1] > 0.5, 0.8, 0.3),
        np.full(500, y.mean()),
    ]
    for other in others:
        assert ((q - y) ** 2).mean() <= ((other - y) ** 2).mean()
        with np.errstate(divide="ignore"):
            assert (
                np.log(np.where(y, q, 1 - q)).mean() >= np.log(np.where(y, other, 1 - other)).mean()
            )


def test_isotonic_between_subnormal_outputs():
    """scikit-learn's slopes overflow here: a rise of 1 over 1e-320."""
    fit = IsotonicCalibration(finite=False).fit([0.0, 0.0, 1e-320, 1e-320], [0, 0, 1, 1])
    assert fit.predict_proba([0.0, 5e-321, 1e-320, 0.3])[:, 1] == pytest.approx(
        [0, 0.5, 1, 1], abs=1e-3
    )


def test_isotonic_finite():
    p, y = np.linspace(0.1, 0.9, 9), [0, 0, 0, 0, 1, 0, 1, 1, 1]
    plain = IsotonicCalibration(finite=False).fit(p, y)
    finite = IsotonicCalibration().fit(p, y)
    assert plain.predict_proba(p)[0, 1] == 0
    assert "infinite log loss" in plain.fit_report_.status
    q = finite.predict_proba(np.linspace(0, 1, 50))[:, 1]
    assert q[0] == pytest.approx(1 / 6)  # four misses: (0 + 1) / (4 + 2)
    assert q[-1] == pytest.approx(4 / 5)
    assert (np.diff(q) >= 0).all()
    assert finite.fit_report_.status == "solved exactly"


def test_isotonic_centred():
    """Knots at the weighted mean output of each pool, linear between them, constant outside."""
    p, y, w = np.arange(1, 8) / 10, [0, 1, 0, 0, 1, 0, 1], [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    fit = IsotonicCalibration(finite=False, centred=True).fit(p, y, w)
    # pools {1}, {2, 3, 4}, {5, 6}, {7}: hits 0, 2 of 4, 1 of 2, 1, so that the middle ones join
    knots = [0.1, (0.4 + 0.3 + 0.4 + 0.5 + 0.6) / 6, 0.7], [0.0, 0.5, 1.0]
    assert fit.curves_[0] == pytest.approx(np.array(knots))
    grid = np.linspace(0, 1, 101)
    assert fit.predict_proba(grid)[:, 1] == pytest.approx(np.interp(grid, *knots))


@pytest.mark.parametrize("finite", [False, True])
def test_isotonic_centred_keeps_the_order_of_rows(finite):
    rng = np.random.default_rng(0)
    p = np.sort(rng.random(500))
    y = (rng.random(500) < p).astype(int)
    fit = IsotonicCalibration(finite=finite, centred=True).fit(p, y)
    first, *_, last = fit.curves_[0][0]
    inside = (p >= first) & (p <= last)
    assert (np.diff(fit.predict_proba(p)[inside, 1]) > 0).all()
    steps = IsotonicCalibration(finite=finite).fit(p, y).predict_proba(p)[:, 1]
    assert len(np.unique(steps)) < 100


def test_a_row_without_any_hits_is_kept():
    """Each class's curve is 0 at low outputs, and this row has only low ones."""
    P = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
    fit = IsotonicCalibration(finite=False).fit(
        np.repeat(P[:3], 5, axis=0), np.repeat([0, 1, 2], 5)
    )
    low = IsotonicCalibration(finite=False).fit(
        np.vstack([P[:3], [[0.5, 0.25, 0.25]]]), [0, 1, 2, 1]
    )
    assert fit.predict_proba([[1 / 3, 1 / 3, 1 / 3]])[0] == pytest.approx([1 / 3] * 3)
    assert np.isfinite(low.predict_proba([[0.1, 0.1, 0.8]])).all()
    only_low = HistogramBinning(bins=2).fit(np.repeat(P[:3], 5, axis=0), np.repeat([0, 1, 2], 5))
    assert only_low.predict_proba(P[3:])[0] == pytest.approx(P[3])


# --- IRM


@pytest.mark.parametrize("classes", [2, 3, 10, 40])
def test_irm_keeps_the_argmax(classes):
    rng = np.random.default_rng(classes)
    z, y = world(300, classes)
    fit = IRM(from_logits=True, epsilon=1e-12).fit(z, y)
    new = rng.normal(scale=5, size=(3000, classes))
    new[:300] = new[:300].round()  # ties
    # next to each other
    new[300:600] = 1 + np.array([0, 2**-52, -(2**-53), 2**-51])[rng.integers(0, 4, (300, classes))]
    new[600:900] *= 1e4
    new[900:1000] = 0
    q = fit.predict_proba(new)
    check_probabilities(q, new.shape)
    assert np.array_equal(q.argmax(axis=1), new.argmax(axis=1))
    assert fit.accuracy_preserving
    assert not IRM(strict=False).accuracy_preserving


def test_irm_keeps_order():
    z, y = world(300, 5)
    q = IRM(from_logits=True).fit(z, y).predict_proba(z)
    order = z.argsort(axis=1)
    assert (np.diff(np.take_along_axis(q, order, axis=1), axis=1) >= 0).all()


def test_irm_is_isotonic_regression_of_all_pairs():
    z, y = world(400, 4)
    p = softmax(z)
    curve = (
        IsotonicRegression(out_of_bounds="clip")
        .fit(p.ravel(), np.eye(4)[y].ravel())
        .predict(p.ravel())
        .reshape(p.shape)
    )
    found = IRM(strict=False).fit(p, y).predict_proba(p)
    assert found == pytest.approx(curve / curve.sum(axis=1, keepdims=True), abs=1e-9)


# --- bins


def test_histogram_bins():
    p, y = np.array([0.0, 0.1, 0.2, 0.25, 0.3, 1.0]), [0, 1, 0, 1, 1, 1]
    fit = HistogramBinning(bins=4).fit(p, y)
    # [0, 1/4) has 1 of 3, [1/4, 1/2) 2 of 2, [1/2, 3/4) is empty, [3/4, 1] 1 of 1
    assert fit.predict_proba([0.0, 0.249, 0.25, 0.6, 0.75, 1.0])[:, 1] == pytest.approx(
        [1 / 3, 1 / 3, 1, 0.625, 1, 1]
    )
    assert HistogramBinning(bins=4, empty=0.0).fit(p, y).predict_proba([0.6])[0, 1] == 0


def test_histogram_of_equal_mass_never_parts_ties():
    p, y = np.array([0.1] * 5 + [0.2, 0.3, 0.4]), [0, 1, 0, 0, 0, 1, 1, 0]
    fit = HistogramBinning(bins=4, equal="mass").fit(p, y)
    assert fit.predict_proba([0.1])[0, 1] == pytest.approx(0.2)
    assert fit.predict_proba([0.2, 0.3, 0.4])[:, 1] == pytest.approx([1, 0.5, 0.5])


def test_bbq_by_hand():
    """Two histograms, of 1 and 2 bins, weighted by their marginal likelihoods (Naeini et al. 2015,
    section 3)."""
    from math import exp, lgamma

    p, y = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]), np.array([0, 0, 0, 1, 0, 1, 1, 1])

    def bin_evidence(hits, misses, bins, middle):
        a, b = 2 / bins * middle, 2 / bins * (1 - middle)
        return (
            lgamma(a + b)
            - lgamma(a + b + hits + misses)
            + lgamma(a + hits)
            - lgamma(a)
            + lgamma(b + misses)
            - lgamma(b)
        )

    one, two = (
        exp(bin_evidence(4, 4, 1, 0.5)),
        exp(bin_evidence(1, 3, 2, 0.25) + bin_evidence(3, 1, 2, 0.75)),
    )
    low = (one * 5 / 10 + two * (1 + 0.25) / 5) / (one + two)
    assert BBQ().fit(p, y).predict_proba([0.3])[0, 1] == pytest.approx(low, abs=1e-12)


# --- beta


def test_beta_is_logistic_regression():
    z, y = world(2000, 2)
    p = softmax(z)
    weights = np.random.default_rng(0).random(2000)
    features = np.column_stack([np.log(p[:, 1]), -np.log(p[:, 0])])
    expected = LogisticRegression(
        C=np.inf, tol=1e-12, max_iter=10_000, solver="newton-cholesky"
    ).fit(features, y, weights)
    a, b, c = BetaCalibration().fit(p, y, weights).curves_[0]
    assert [a, b, c] == pytest.approx([*expected.coef_[0], expected.intercept_[0]], rel=1e-6)


def test_beta_recovers_its_own_world():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    odds = 0.5 * np.log(p) - 2 * np.log1p(-p) + 0.3
    y = rng.random(len(p)) < 1 / (1 + np.exp(-odds))
    assert BetaCalibration().fit(p, y).curves_[0] == pytest.approx([0.5, 2, 0.3], abs=0.05)


def test_beta_of_separated_rows_is_finite_and_says_so():
    fit = BetaCalibration().fit([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    check_probabilities(fit.predict_proba([0.0, 0.5, 1.0]), (3, 2))
    assert "no finite optimum" in fit.fit_report_.status


@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_beta_of_reversed_outputs_is_flat(parameters):
    """Every slope would be negative: the best that does not fall is a constant."""
    z, y = world(500, 2)
    fit = BetaCalibration(parameters=parameters).fit(softmax(-z), y)
    q = fit.predict_proba(softmax(np.column_stack([np.linspace(5, -5, 50), np.zeros(50)])))[:, 1]
    assert (np.diff(q) >= 0).all()
    assert fit.fit_report_.score_after <= fit.fit_report_.score_before
    assert "would be negative" in fit.fit_report_.status


def test_beta_near_one():
    """1 - p is taken from the other classes: 1e-20 is not rounded away."""
    fit = BetaCalibration(from_logits=True)
    z, y = world(200, 3)
    fit.fit(z, y)
    q = fit.predict_proba([[50.0, 0, 0], [60.0, 0, 0]])
    assert q[1, 1] < q[0, 1]


# --- Dirichlet


def test_dirichlet_recovers_its_own_world():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 100_000)
    W, b = np.array([[1.2, 0, 0], [0.3, 0.8, 0], [0, 0, 0.5]]), np.array([0.5, 0, -0.5])
    true = softmax(np.log(p) @ W.T + b)
    y = (true.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    q = DirichletCalibration(odir=0).fit(p, y).predict_proba(p)
    assert np.abs(q - true).mean() < 0.005


def test_dirichlet_of_a_calibrated_model_stays_near_the_identity():
    z, y = world(20_000, 3, temperature=1.0)
    fit = DirichletCalibration(from_logits=True).fit(z, y)
    assert fit.weights_ == pytest.approx(np.eye(3), abs=0.05)


def test_dirichlet_with_strong_odir_only_scales_each_class():
    z, y = world(1000, 3)
    fit = DirichletCalibration(odir=1e4, from_logits=True).fit(z, y)
    assert fit.weights_ == pytest.approx(np.diag(np.diag(fit.weights_)), abs=1e-4)
    assert fit.intercept_ == pytest.approx(np.zeros(3), abs=1e-4)
    assert np.diag(fit.weights_) == pytest.approx([0.5] * 3, abs=0.1)


def test_dirichlet_with_many_classes():
    z, y = world(500, 40)
    fit = DirichletCalibration(odir=10.0, from_logits=True).fit(z, y)
    check_probabilities(fit.predict_proba(z), z.shape)
    assert fit.fit_report_.score_after < fit.fit_report_.score_before


def extreme_world(n=2000, K=9, scale=1000.0):
    """Confident and sometimes wrong, with margins of hundreds: L-BFGS alone has not converged after
    2000 steps."""
    rng = np.random.default_rng(0)
    y = rng.choice(K, n, p=rng.dirichlet(np.full(K, 2.0)))
    z = (rng.normal(size=(K, K)) * scale / 6)[y] + rng.standard_t(3, (n, K)) * scale / 12
    z[np.arange(n), y] += scale / 2
    wrong = rng.random(n) < 0.04
    return np.clip(z, -scale, scale), np.where(wrong, rng.integers(0, K, n), y)


def test_dirichlet_reaches_its_optimum_with_extreme_logits():
    z, y = extreme_world()
    fit = DirichletCalibration(odir=1e-3, from_logits=True).fit(z, y)
    assert fit.fit_report_.converged
    # log p, but for rounding
    X = np.column_stack([z - z.max(axis=1, keepdims=True), np.ones(len(z))])
    X[:, :-1] -= np.log(np.exp(X[:, :-1]).sum(axis=1, keepdims=True))
    theta, penalty = np.column_stack([fit.weights_, fit.intercept_]), np.full((9, 10), 1e-3)
    np.fill_diagonal(penalty, 0)
    slope = (softmax(X @ theta.T) - np.eye(9)[y]).T @ X / len(z) + 2 * penalty * theta
    # at the optimum of a convex function no direction leads down; L-BFGS alone left 0.012
    assert np.abs(slope).max() < 1e-7


def test_dirichlet_warns_if_it_has_not_converged(monkeypatch):
    monkeypatch.setattr(affine_softmax, "MOST_NEWTON", 0)
    monkeypatch.setattr(affine_softmax, "STEPS", 5)
    with pytest.warns(UserWarning, match="did not converge in 5 steps"):
        fit = DirichletCalibration(from_logits=True).fit(*extreme_world(200))
    assert not fit.fit_report_.converged


# --- Gaussian process


def test_gaussian_process_finds_the_temperature():
    z, y = world(4000, 5, temperature=2.0)
    fit = GaussianProcessCalibration(from_logits=True).fit(z, y)
    new, labels = world(4000, 5, seed=1, temperature=2.0)
    rows = np.arange(4000)
    found, best = fit.predict_proba(new)[rows, labels], softmax(new / 2)[rows, labels]
    assert -np.log(found).mean() < -np.log(best).mean() + 0.005


def test_gaussian_process_finds_what_no_temperature_can():
    """A bent link: log-probabilities below -2 were pushed down."""
    z, y = world(6000, 3, temperature=1.0)
    logs = np.log(softmax(z))
    bent = softmax(np.where(logs < -2, 3 * logs + 4, logs))
    fit = GaussianProcessCalibration().fit(bent, y)
    best = min(
        -np.log(softmax(np.log(bent) * slope)[np.arange(6000), y]).mean()
        for slope in np.linspace(0.2, 1.5, 60)
    )
    assert fit.fit_report_.score_after < best - 0.005


def test_gaussian_process_hardly_depends_on_its_inducing_points():
    z, y = world(1000, 4)
    q = GaussianProcessCalibration(from_logits=True).fit(z, y).predict_proba(z)
    finer = GaussianProcessCalibration(inducing=40, from_logits=True).fit(z, y).predict_proba(z)
    assert np.abs(q - finer).max() < 0.01


# --- mean replacement


def test_mean_replacement():
    z, y = world(500, 4)
    fit = MeanReplacement(from_logits=True).fit(z, y)
    accuracy = (z.argmax(axis=1) == y).mean()
    q = fit.predict_proba(z)
    assert q.max(axis=1) == pytest.approx(np.full(500, accuracy))
    assert np.array_equal(q.argmax(axis=1), z.argmax(axis=1))
    wrong = MeanReplacement(from_logits=True).fit(-z, y)
    assert "most probable class changes" in wrong.fit_report_.status


# --- priors


def test_known_priors():
    """Bayes' rule: from a balanced world to one where the last class is rare."""
    rng = np.random.default_rng(0)
    train, deploy = np.array([0.3, 0.3, 0.4]), np.array([0.6, 0.35, 0.05])
    likelihoods = rng.gamma(1.0, size=(1000, 3))
    p, expected = likelihoods * train, likelihoods * deploy
    p, expected = p / p.sum(axis=1, keepdims=True), expected / expected.sum(axis=1, keepdims=True)
    fit = PriorCorrection(train_priors=train, deploy_priors=deploy).fit(p, rng.integers(0, 3, 1000))
    assert fit.predict_proba(p) == pytest.approx(expected, abs=1e-12)


def test_unknown_priors_are_found():
    rng = np.random.default_rng(0)

    def draw(priors, n):
        y = rng.choice(3, n, p=priors)
        x = rng.normal(size=(n, 3)) + 2 * np.eye(3)[y]
        return softmax(2 * x + np.log([0.5, 0.3, 0.2])), y  # right where priors are .5, .3, .2

    fit = PriorCorrection().fit(*draw([0.5, 0.3, 0.2], 20_000))
    assert "unknown" in fit.fit_report_.status
    deployed, labels = draw([0.1, 0.2, 0.7], 20_000)
    assert fit.predict_proba(deployed) == pytest.approx(deployed, abs=1e-9)
    before = -np.log(deployed[np.arange(20_000), labels]).mean()
    assert fit.adapt(deployed).deploy_priors_ == pytest.approx([0.1, 0.2, 0.7], abs=0.02)
    assert "converged" in fit.fit_report_.status
    assert -np.log(fit.predict_proba(deployed)[np.arange(20_000), labels]).mean() < before - 0.1
    weighted = PriorCorrection().fit(*draw([0.5, 0.3, 0.2], 2000))
    assert weighted.adapt(deployed, labels == 0).deploy_priors_[0] > 0.8


def test_a_class_that_cannot_occur():
    fit = PriorCorrection(deploy_priors=[0.5, 0.5, 0]).fit(np.eye(3) * 0.7 + 0.1, [0, 1, 2])
    q = fit.predict_proba([[0.0, 0.0, 1.0], [0.1, 0.2, 0.7]])
    check_probabilities(q, (2, 3))
    assert (q[:, 2] == 0).all()


# --- bad choices


@pytest.mark.parametrize(
    ("calibrator", "argument"),
    [
        (HistogramBinning(bins=0), "bins"),
        (HistogramBinning(bins=2.5), "bins"),
        (HistogramBinning(equal="size"), "equal"),
        (HistogramBinning(empty=1.5), "empty"),
        (BBQ(weighting="best"), "weighting"),
        (BBQ(equal="size"), "equal"),
        (BetaCalibration(parameters="abc"), "parameters"),
        (DirichletCalibration(odir=-1), "odir"),
        (DirichletCalibration(odir=(1, 2, 3)), "odir"),
        (DirichletCalibration(l2=np.inf), "l2"),
        (GaussianProcessCalibration(inducing=0), "inducing"),
        (IRM(epsilon=0), "epsilon"),
        (PriorCorrection(train_priors=[1.0, 0.0]), "train_priors"),
        (PriorCorrection(deploy_priors=[0.5, 0.6]), "deploy_priors"),
        (PriorCorrection(deploy_priors=[0.2, 0.3, 0.5]), "deploy_priors"),
    ],
)
def test_bad_choices(calibrator, argument):
    with pytest.raises(InputError) as raised:
        calibrator.fit([[0.7, 0.3], [0.4, 0.6]], [0, 1])
    assert raised.value.argument == argument


def test_adapt_needs_unknown_priors():
    fit = PriorCorrection(deploy_priors=[0.5, 0.5]).fit([[0.7, 0.3], [0.4, 0.6]], [0, 1])
    with pytest.raises(InputError, match="must be None"):
        fit.adapt([[0.7, 0.3]])


def test_finite_isotonic_counts_equal_weights_as_repeats():
    """Pseudo-rows have weight 1, whatever the weight that all rows share."""
    p, y = [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]
    once = IsotonicCalibration().fit(p, y, sample_weight=[2] * 4)
    often = IsotonicCalibration().fit(p * 2, y * 2)
    assert once.predict_proba([0.0, 1.0]) == pytest.approx(often.predict_proba([0.0, 1.0]))
