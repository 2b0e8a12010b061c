"""Temperature-like and linear calibrators: their optimum, their laws, their edges."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import _SigmoidCalibration
from sklearn.utils.estimator_checks import check_estimator

from probaudit import InputError
from probaudit.calibrators import (
    BiasCorrectedTemperature,
    DirectionPreserving,
    EnsembleTemperature,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from probaudit.calibrators.base import Sample
from probaudit.calibrators.fitting import softmax_sums as softmax_module
from probaudit.calibrators.fitting.newton import bounded_minimum
from probaudit.calibrators.fitting.softmax_sums import SoftmaxRows
from probaudit.calibrators.temperature import squared_weights
from probaudit.kernels import scaled_softmax
from tests.conftest import softmax

LOG_SCORE = [TemperatureScaling, DirectionPreserving, VectorScaling, MatrixScaling]
ALL = [*LOG_SCORE, EnsembleTemperature, PlattScaling]
PRESERVING = [TemperatureScaling, EnsembleTemperature]


def world(n=400, K=4, seed=0, sharp=2.0):
    """Overconfident, biased logits and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, K)) * 1.5
    p = softmax(truth)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return sharp * truth + np.linspace(-1, 1, K), y


def sample_of(z, y, w=None, from_logits=True):
    return Sample(
        np.ascontiguousarray(z),
        from_logits,
        np.asarray(y, np.int64),
        np.ones(len(z)) if w is None else w,
    )


def mean_log_score(u, y):
    return float(np.mean(np.logaddexp.reduce(u, axis=1) - u[np.arange(len(y)), y]))


def minimum(score, start):
    return minimize(score, start, method="BFGS", options={"gtol": 1e-9}).fun


def test_direction_preserving_is_bias_corrected_temperature():
    assert DirectionPreserving is BiasCorrectedTemperature


# The optimum


@pytest.mark.parametrize("make", LOG_SCORE)
@pytest.mark.parametrize("K", [2, 3, 5])
def test_the_log_score_is_the_least_that_scipy_finds(make, K):
    z, y = world(K=K)
    log_p = np.log(softmax(z))
    score, start = {
        TemperatureScaling: (lambda x: mean_log_score(x[0] * z, y), [1.0]),
        DirectionPreserving: (lambda x: mean_log_score(x[0] * z + x[1:], y), [1.0, *np.zeros(K)]),
        VectorScaling: (
            lambda x: mean_log_score(x[:K] * log_p + x[K:], y),
            [*np.ones(K), *np.zeros(K)],
        ),
        MatrixScaling: (
            lambda x: mean_log_score(log_p @ x[: K * K].reshape(K, K).T + x[K * K :], y),
            [*np.eye(K).ravel(), *np.zeros(K)],
        ),
    }[make]
    report = make(from_logits=True).fit(z, y).fit_report_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy on its own precision
        least = minimum(score, start)
    assert report.converged
    assert "converged" in report.status
    assert report.score_after == pytest.approx(least, abs=1e-8)
    assert report.score_after < report.score_before


@pytest.mark.parametrize("K", [3, softmax_module.MOST_DENSE, softmax_module.MOST_DENSE + 1, 100])
def test_the_gradient_of_a_bias_corrected_temperature_vanishes(K):
    z, y = world(n=40 * K, K=K)
    model = DirectionPreserving(from_logits=True).fit(z, y)
    p = model.predict_proba(z)
    wrong = p.copy()
    wrong[np.arange(len(y)), y] -= 1
    assert np.abs(wrong.mean(axis=0)).max() <= 1e-8
    assert abs((wrong * z).sum(axis=1).mean()) <= 1e-8
    assert abs(model.bias_.mean()) <= 1e-12


@pytest.mark.parametrize("K", [2, 32, 33, 64, 65, 200])
def test_derivatives_are_those_of_plain_formulas(K):
    rng = np.random.default_rng(K)
    z, y, w = rng.normal(size=(50, K)) * 3, rng.integers(0, K, 50), rng.random(50)
    beta, bias = 0.7, rng.normal(size=K)
    rows = SoftmaxRows(sample_of(z, y, w))
    p, share = softmax(beta * z + bias), w / w.sum()
    mean = (p * z).sum(axis=1)
    found = rows.at(beta, bias)
    assert found.value == pytest.approx(-share @ np.log(p[np.arange(50), y]), rel=1e-12)
    assert found.slope == pytest.approx(share @ (mean - z[np.arange(50), y]), rel=1e-11)
    assert found.curvature == pytest.approx(share @ ((p * z**2).sum(axis=1) - mean**2), rel=1e-11)
    assert found.bias_slope == pytest.approx(share @ (p - np.eye(K)[y]), abs=1e-13)
    assert found.mixed == pytest.approx(share @ (p * (z - mean[:, None])), abs=1e-12)
    products = (p * share[:, None]).T @ p
    assert found.squares == pytest.approx(
        np.triu(products) if K <= softmax_module.MOST_DENSE else np.diag(products), abs=1e-13
    )
    assert rows.at_scale(beta) == pytest.approx(_plain_scale(z, y, share, beta), rel=1e-10)
    assert rows.unscaled_score == pytest.approx(rows.at_scale(1.0)[0], rel=1e-15)
    assert np.array_equal(rows.tops, z.max(axis=1))
    assert rows.brier(beta) == pytest.approx(
        share @ ((softmax(beta * z) - np.eye(K)[y]) ** 2).sum(axis=1), rel=1e-13
    )
    assert rows.probabilities(beta, bias) == pytest.approx(p, rel=1e-12)


def _plain_scale(z, y, share, beta):
    p, rows = softmax(beta * z), np.arange(len(y))
    mean = (p * z).sum(axis=1)
    second, third = (share @ (p * (z - mean[:, None]) ** k).sum(axis=1) for k in (2, 3))
    return [-share @ np.log(p[rows, y]), share @ (mean - z[rows, y]), second, third]


@pytest.mark.parametrize("best", [1e-3, 0.02, 0.5, 1.0, 30.0, 1e3])
def test_bounded_newton_finds_minima_everywhere(best):
    found = bounded_minimum(
        lambda x: np.array([x**2 / 2 - best * x, x - best, 1.0, 0.0]), 1.0, 1e-3, 1e3
    )
    assert found.converged
    assert float(found.at) == pytest.approx(best, rel=1e-9)


def test_bounded_newton_goes_to_a_bound_without_curvature():
    found = bounded_minimum(lambda x: np.array([-x, -1.0, 0.0, 0.0]), 1.0, 1e-3, 1e3)
    assert (float(found.at), found.converged) == (1e3, True)


class Counted(SoftmaxRows):
    """Rows that count the passes over them."""

    passes = 0

    def scale_sums(self, beta, raw):
        self.passes += 1
        return super().scale_sums(beta, raw)


@pytest.mark.parametrize("K", [2, 5, 70])
@pytest.mark.parametrize("from_logits", [True, False])
def test_a_search_from_a_sample_takes_two_passes(monkeypatch, K, from_logits):
    z, y = world(n=20_000, K=K, sharp=1.5)
    rows = Counted(sample_of(z if from_logits else softmax(z), y, from_logits=from_logits))
    assert len(rows.few) == 625
    model = TemperatureScaling(from_logits=from_logits)
    report = model.learn(rows)
    assert (rows.passes, report.converged) == (2, True)
    monkeypatch.setattr(softmax_module, "LEAST_SAMPLE", np.inf)
    alone = TemperatureScaling(from_logits=from_logits)
    expected = alone.learn(SoftmaxRows(rows.sample))
    assert model.temperature_ == pytest.approx(alone.temperature_, rel=1e-10)
    assert report.score_before == pytest.approx(expected.score_before, rel=1e-14)
    assert report.score_after == pytest.approx(expected.score_after, rel=1e-13)


@pytest.mark.parametrize("labels", ["argmax", "argmin"])
def test_a_misleading_sample_changes_the_steps_only(monkeypatch, labels):
    z, y = world(n=20_000, K=3)
    numbers = softmax_module.sample_numbers(len(y), 3)
    y[numbers] = getattr(z[numbers], labels)(axis=1)  # its best scale is at a bound
    model = TemperatureScaling(from_logits=True).fit(z, y)
    monkeypatch.setattr(softmax_module, "LEAST_SAMPLE", np.inf)
    alone = TemperatureScaling(from_logits=True).fit(z, y)
    assert model.temperature_ == pytest.approx(alone.temperature_, rel=1e-10)
    monkeypatch.undo()
    y[numbers[::40]] = (z[numbers[::40]].argmax(axis=1) + 1) % 3  # its best scale is far away
    model = TemperatureScaling(from_logits=True).fit(z, y)
    monkeypatch.setattr(softmax_module, "LEAST_SAMPLE", np.inf)
    alone = TemperatureScaling(from_logits=True).fit(z, y)
    assert model.temperature_ == pytest.approx(alone.temperature_, rel=1e-10)


def test_squared_weights_are_the_minimum_on_the_simplex():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), -1).reshape(-1, 2)
    grid = np.column_stack([grid, 1 - grid.sum(axis=1)])
    grid = grid[grid[:, 2] >= 0]
    for _ in range(20):
        half, truths = rng.normal(size=(3, 3)), rng.normal(size=3)
        products = half @ half.T
        w = squared_weights(products, truths)
        values = np.einsum("ni,ij,nj->n", grid, products, grid) - 2 * grid @ truths
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1)
        assert w @ products @ w - 2 * truths @ w <= values.min() + 1e-12


def test_platt_is_scikit_learns_sigmoid():
    z, y = world(K=2)
    s = z[:, 1] - z[:, 0]
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    theirs = _SigmoidCalibration().fit(s, y, weights)
    ours = PlattScaling(from_logits=True).fit(z, y, weights)
    assert ours.slope_[1] == pytest.approx(-theirs.a_, abs=1e-4)
    assert ours.predict_proba(z)[:, 1] == pytest.approx(theirs.predict(s), abs=1e-5)


def test_platt_without_smoothing_is_the_direction_preserving_map_of_two_classes():
    z, y = world(K=2)
    ours = PlattScaling(smooth=False, from_logits=True).fit(z, y)
    assert ours.predict_proba(z) == pytest.approx(
        DirectionPreserving(from_logits=True).fit(z, y).predict_proba(z), abs=1e-7
    )


@pytest.mark.parametrize("penalty", ["l2", "odir"])
def test_matrix_scaling_with_a_strong_penalty(penalty):
    z, y = world(K=3)
    model = MatrixScaling(l2=1e7, penalty=penalty, from_logits=True).fit(z, y)
    off_diagonal = model.matrix_[~np.eye(3, dtype=bool)]
    assert np.abs(off_diagonal).max() < 1e-5
    assert np.abs(model.bias_).max() < 1e-5
    diagonal = np.diag(model.matrix_)
    assert (np.abs(diagonal - 1).max() < 1e-5) == (penalty == "l2")


# Laws


@pytest.mark.parametrize("make", ALL)
def test_contract_of_scikit_learn(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(make(from_logits=True), on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("K", [2, 4])
def test_permuted_classes_give_permuted_probabilities(make, K):
    z, y = world(K=K)
    order = np.random.default_rng(1).permutation(K)
    plain = make(from_logits=True).fit(z, y).predict_proba(z)
    permuted = (
        make(from_logits=True).fit(z[:, order], np.argsort(order)[y]).predict_proba(z[:, order])
    )
    assert permuted == pytest.approx(plain[:, order], abs=1e-5 if make is MatrixScaling else 1e-6)


@pytest.mark.parametrize("make", ALL)
def test_weights_are_repeats_and_zero_weights_are_absent(make):
    z, y = world(n=200)
    w = np.random.default_rng(0).integers(0, 4, len(y))
    weighed = make(from_logits=True).fit(z, y, sample_weight=w)
    repeated = make(from_logits=True).fit(np.repeat(z, w, axis=0), np.repeat(y, w))
    kept = make(from_logits=True).fit(z[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert weighed.predict_proba(z) == pytest.approx(
        repeated.predict_proba(z), abs=1e-5 if make is MatrixScaling else 1e-7
    )
    assert np.array_equal(weighed.predict_proba(z), kept.predict_proba(z))
    assert weighed.fit_report_.score_before == pytest.approx(
        repeated.fit_report_.score_before, rel=1e-12
    )
    assert weighed.fit_report_.n == int((w > 0).sum())


@pytest.mark.parametrize("make", ALL)
def test_logits_and_their_probabilities_give_the_same(make):
    z, y = world()
    from_logits = make(from_logits=True).fit(z, y)
    shifted = make(from_logits=True).fit(z + np.arange(len(z))[:, None] % 7, y).predict_proba(z)
    from_probs = make().fit(softmax(z), y)
    expected = from_logits.predict_proba(z)
    assert from_probs.predict_proba(softmax(z)) == pytest.approx(expected, abs=1e-6)
    assert shifted == pytest.approx(expected, abs=1e-6)
    assert from_probs.fit_report_.score_before == pytest.approx(
        from_logits.fit_report_.score_before, rel=1e-12
    )


@pytest.mark.parametrize("make", ALL)
def test_the_report_has_the_scores_of_the_rows(make):
    z, y = world()
    model = make(from_logits=True).fit(z, y)
    after = -np.log(model.predict_proba(z)[np.arange(len(y)), y]).mean()
    assert model.fit_report_.score_before == pytest.approx(mean_log_score(z, y), rel=1e-12)
    assert model.fit_report_.score_after == pytest.approx(after, rel=1e-9)
    assert model.fit_report_.n == len(y)


@pytest.mark.parametrize("K", [5, 70])
def test_threads_do_not_change_a_bit(K, monkeypatch):
    monkeypatch.setattr(softmax_module, "BLOCK_VALUES", 2**10)
    z, y = world(n=500, K=K)
    one, three = (SoftmaxRows(sample_of(z, y), threads=threads) for threads in (1, 3))
    bias = np.linspace(-1, 1, K)
    assert np.array_equal(one.at_scale(0.8), three.at_scale(0.8))
    for a, b in zip(
        vars(one.at(0.8, bias)).values(), vars(three.at(0.8, bias)).values(), strict=True
    ):
        assert np.array_equal(a, b)
    assert np.array_equal(one.probabilities(0.8, bias), three.probabilities(0.8, bias))


def test_block_size_changes_the_last_digits_only(monkeypatch):
    z, y = world(n=500, K=5)
    whole = SoftmaxRows(sample_of(z, y)).at(0.8, np.zeros(5))
    monkeypatch.setattr(softmax_module, "BLOCK_VALUES", 64)
    parts = SoftmaxRows(sample_of(z, y)).at(0.8, np.zeros(5))
    assert parts.value == pytest.approx(whole.value, rel=1e-14)
    assert parts.squares == pytest.approx(whole.squares, rel=1e-13)


@pytest.mark.parametrize("make", PRESERVING)
def test_the_most_probable_class_never_changes(make):
    assert make.accuracy_preserving
    rng = np.random.default_rng(0)
    for scale, K in [(1.0, 2), (30.0, 3), (1e5, 10), (1e-8, 7), (1e-17, 4)]:
        z, y = rng.normal(size=(300, K)) * scale, rng.integers(0, K, 300)
        z[::3, -1] = z[::3].max(axis=1)  # ties
        z[1::3, -1] = np.nextafter(z[1::3].max(axis=1), np.inf)  # all but ties
        model = make(from_logits=True).fit(z, y)
        assert np.array_equal(model.predict_proba(z).argmax(axis=1), z.argmax(axis=1))
        p = softmax(z)
        model = make().fit(p, y)
        assert np.array_equal(model.predict_proba(p).argmax(axis=1), p.argmax(axis=1))


def test_the_others_do_not_claim_to_preserve_accuracy():
    assert not any(make.accuracy_preserving for make in ALL if make not in PRESERVING)


# Words


def test_a_temperature_at_its_bound_says_so():
    z, y = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0], [0.0, 0.5]]), [0, 1, 0, 1]
    sharp = TemperatureScaling(from_logits=True).fit(z, y)
    assert sharp.temperature_ == 0.001
    assert sharp.fit_report_.status == "temperature at its bound of 0.001"
    flat = TemperatureScaling(from_logits=True).fit(z, [1, 0, 1, 0])
    assert flat.temperature_ == 1000
    assert flat.fit_report_.status == "temperature at its bound of 1000"
    assert (
        "bound of 1000"
        in DirectionPreserving(from_logits=True).fit(z * 100, [1, 0, 1, 0]).fit_report_.status
    )
    assert "bound" in EnsembleTemperature(from_logits=True, loss="log").fit(z, y).fit_report_.status


@pytest.mark.parametrize("make", [DirectionPreserving, VectorScaling, MatrixScaling])
def test_separated_classes_say_so(make):
    z, y = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0], [0.0, 0.5]]), [0, 1, 0, 1]
    model = make(from_logits=True).fit(z, y)
    assert (
        "classes without error" in model.fit_report_.status or "bound" in model.fit_report_.status
    )
    assert np.isfinite(model.predict_proba(z)).all()


@pytest.mark.parametrize("make", LOG_SCORE)
def test_never_worse_than_before(make):
    rng = np.random.default_rng(0)
    for n, K, scale in [(2, 2, 1.0), (3, 5, 10.0), (10, 3, 1e5), (20, 100, 1.0), (500, 3, 1e-3)]:
        z, y = rng.normal(size=(n, K)) * scale, np.arange(n) % K
        report = make(from_logits=True).fit(z, y).fit_report_
        assert report.score_after <= report.score_before + 1e-9, (n, K, scale)


def test_identity_where_nothing_can_improve():
    """Half of each kind of row is right at p = 1/2: the identity is the optimum of every family."""
    P, y = np.full((6, 2), 0.5), [0, 1, 0, 1, 0, 1]
    for make in ALL:
        assert make().fit(P, y).predict_proba(P) == pytest.approx(P, abs=1e-12)


def test_platt_says_when_smooth_targets_cost_log_score():
    z = np.array([[0.0, -9.0], [0.0, 9.0]] * 5)
    model = PlattScaling(from_logits=True).fit(z, [0, 1] * 5)
    assert "worse than before" in model.fit_report_.status


# Edges


EDGES = {
    "certain": np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "subnormal": np.array(
        [[1.0, 5e-324, 0.0], [5e-324, 1.0, 0.0], [0.2, 0.3, 0.5], [0.0, 1 - 2**-53, 2**-53]]
    ),
    "constant": np.full((4, 3), 1 / 3),
    "float32": np.array(
        [[0.7, 0.2, 0.1], [1e-45, 1.0, 0.0], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]], np.float32
    ),
}


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("y", [[0, 1, 2, 0], [1, 0, 0, 2], [0, 1, 1, 0]])
def test_edge_probabilities(make, edge, y):
    P = EDGES[edge]
    model = make(classes=[0, 1, 2]).fit(P, y)
    for rows in (P, np.eye(3), np.full((1, 3), 1 / 3)):
        _proper(model.predict_proba(rows))


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("n", "K"), [(2, 2), (20, 3), (20, 1000)])
def test_huge_logits(make, n, K):
    if make is MatrixScaling and K > 100:
        pytest.skip("a million numbers")
    rng = np.random.default_rng(0)
    z = rng.choice([-1e5, 0.0, 1e5], (n, K)) + rng.normal(size=(n, K))
    y = np.arange(n) % K
    model = make(from_logits=True, classes=list(range(K))).fit(z, y)
    _proper(model.predict_proba(z))
    _proper(model.predict_proba(-z[:5]))


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("K", [4, 80])
def test_a_class_without_rows_keeps_its_column(make, K):
    if make is MatrixScaling and K > 4:
        pytest.skip("as with few classes, and slow")
    z, y = world(n=10 * K, K=K)
    rows = y != 2
    model = make(from_logits=True, classes=list(range(K))).fit(z[rows], y[rows])
    p = model.predict_proba(z)
    _proper(p)
    assert p.shape == z.shape
    assert 0 < p[:, 2].mean() < 1
    assert model.fit_report_.score_after <= model.fit_report_.score_before


def test_the_bias_of_a_class_without_rows_is_the_mean_of_the_others():
    z, y = world()
    model = DirectionPreserving(from_logits=True, classes=[0, 1, 2, 3]).fit(z[y != 2], y[y != 2])
    assert model.bias_[2] == 0
    assert model.bias_.sum() == pytest.approx(0, abs=1e-12)
    x = minimize(
        lambda x: mean_log_score(x[0] * z[y != 2] + [x[1], x[2], 0, -x[1] - x[2]], y[y != 2]),
        [1.0, 0, 0],
        options={"gtol": 1e-9},
    ).x
    assert [1 / model.temperature_, *model.bias_[:2]] == pytest.approx(x, abs=1e-5)


def _proper(p):
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()
    assert np.abs(p.sum(axis=1) - 1).max() <= 1e-12


@pytest.mark.parametrize("make", ALL)
def test_float32_is_close_to_float64(make):
    z, y = world()
    z = z.astype(np.float32)
    ours = make(from_logits=True).fit(z, y).predict_proba(z)
    assert ours == pytest.approx(
        make(from_logits=True).fit(z.astype(np.float64), y).predict_proba(z.astype(np.float64)),
        abs=1e-9,
    )


def test_biases_far_apart_need_the_top_of_each_row():
    z, bias = np.array([[0.0, 1000.0], [3.0, 0.0]]), np.array([700.0, -700.0])
    rows = SoftmaxRows(sample_of(z, [0, 1]))
    assert rows.probabilities(1.0, bias) == pytest.approx(softmax(z + bias), rel=1e-12)
    assert rows.at(1.0, bias).value == pytest.approx(mean_log_score(z + bias, [0, 1]), rel=1e-12)


def test_bad_choices_are_refused():
    z, y = world()
    for model in (
        EnsembleTemperature(loss="brier"),
        MatrixScaling(l2=-1),
        MatrixScaling(l2=np.nan),
        MatrixScaling(penalty="l1"),
    ):
        with pytest.raises(InputError, match="must be"):
            clone(model).set_params(from_logits=True).fit(z, y)


def test_keep_argmax_moves_by_a_last_digit():
    values, probs = np.array([[0.1, 0.1, np.nextafter(0.1, 1)]]), np.full((1, 3), 1 / 3)
    scaled_softmax.keep_argmax(values, probs)
    assert probs.argmax() == 2
    assert probs == pytest.approx(1 / 3, rel=1e-15)
