"""Group calibration (Yang et al. 2023), calibrators for given groups, and chains."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import probaudit as pb
from probaudit.calibrators import (
    Chain,
    EnsembleTemperature,
    GroupCalibration,
    PerGroup,
    TemperatureScaling,
    VectorScaling,
)
from probaudit.calibrators.base import Calibrator, Sample
from probaudit.calibrators.feature_rows import distinct, first_share
from probaudit.calibrators.mixture import Mixture
from probaudit.errors import InputError
from tests.conftest import softmax


def two_worlds(
    n: int, seed: int = 0, classes: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits, labels, features and the hidden group: logits three times too large in one group,
    three times too small in the other. The first feature tells the group, noisily."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, n)
    logits = 2 * rng.standard_normal((n, classes))
    truth = logits * np.where(hidden, 3.0, 1 / 3)[:, None]
    y = (truth + rng.gumbel(size=logits.shape)).argmax(axis=1)
    features = rng.standard_normal((n, 5))
    features[:, 0] = 2 * hidden - 1 + 0.3 * rng.standard_normal(n)
    return logits, y, features, hidden


@pytest.fixture(scope="module")
def learned() -> GroupCalibration:
    z, y, x, _ = two_worlds(3000)
    return GroupCalibration(n_partitions=4, from_logits=True).fit(z, y, features=x)


def all_kinds(**choices: object) -> list[Calibrator]:
    few = {"n_partitions": 3, "min_rows": 4}
    return [
        Chain([TemperatureScaling(), VectorScaling()], **choices),
        Chain(**choices),
        PerGroup(**choices),
        GroupCalibration(**few, **choices),
        GroupCalibration(VectorScaling(), bias=True, n_groups=3, **few, **choices),
    ]


def with_extra(
    name: str, features: np.ndarray, groups: np.ndarray
) -> tuple[Calibrator, np.ndarray]:
    """A calibrator that takes features or groups, and these."""
    if name == "features":
        return GroupCalibration(n_partitions=3, from_logits=True), features
    return PerGroup(from_logits=True), groups


# --- the objective


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_loss_is_the_mixture_of_the_paper(groups: int, bias: bool) -> None:
    rng = np.random.default_rng(0)
    n, d, K = 300, 4, 5  # more rows than a tile, and not a multiple of it
    z, y, x, w = (
        rng.normal(0, 3, (n, K)),
        rng.integers(0, K, n),
        rng.normal(0, 2, (n, d)),
        rng.random(n),
    )
    mixture = Mixture.of(Sample(z, True, y, w), x, 0.1, bias)
    theta = rng.normal(0, 0.5, groups * d + groups * bias + groups)
    W, b, T = theta[: groups * d].reshape(groups, d), np.zeros(groups), np.exp(theta[-groups:])
    if bias:
        b = theta[groups * d : -groups]
    soft = softmax(x @ W.T + b)  # Eq. 14
    parts = np.array([softmax(z / t)[np.arange(n), y] for t in T]).T
    # Eq. 13
    expected = -np.average(np.log((soft * parts).sum(axis=1)), weights=w) + 0.1 * (W**2).sum()
    loss, gradient = mixture.loss(theta, groups)
    assert loss == pytest.approx(expected, rel=1e-12)
    numeric = approx_fprime(theta, lambda t: mixture.loss(t, groups)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=2e-6)


def test_the_search_finds_a_stationary_point() -> None:
    z, y, x, _ = two_worlds(1500)
    model = GroupCalibration(n_partitions=2, penalty=0.01, resample=False, from_logits=True)
    model.learn_groups(z, y, features=x)
    mixture = Mixture.of(Sample(z, True, y, np.ones(len(y))), x, 0.01, False)
    for W, T in zip(model.weights_, model.temperatures_, strict=True):
        assert np.abs(mixture.loss(np.concatenate([W.ravel(), np.log(T)]), 2)[1]).max() < 1e-5


# --- what group calibration is for


def test_hidden_groups_are_found_and_help(learned: GroupCalibration) -> None:
    z, y, x, hidden = two_worlds(20_000, seed=1)
    single = TemperatureScaling(from_logits=True).fit(*two_worlds(3000)[:2])
    grouped, alone = learned.predict_proba(z, features=x), single.predict_proba(z)
    best = np.empty_like(grouped)
    for g, T in ((0, 3.0), (1, 1 / 3)):
        best[hidden == g] = softmax(z[hidden == g] / T)
    scores = [pb.log_score(y, p) for p in (best, grouped, alone)]
    assert scores[1] - scores[0] < 0.02 < 0.1 < scores[2] - scores[1]
    for partition in learned.partitions(x):
        agreement = np.mean(partition.values == hidden)
        assert max(agreement, 1 - agreement) > 0.99
    pce = [pb.partitioned_calibration_error(y, p, learned.partitions(x)) for p in (grouped, alone)]
    assert pce[0] < 0.2 * pce[1]


def test_the_report_is_of_the_rows_and_better(learned: GroupCalibration) -> None:
    report = learned.fit_report_
    assert report.converged
    assert report.n == 3000
    assert report.score_after < report.score_before - 0.1
    assert report.status.startswith("4 partitions (")


def test_an_intercept_parts_rows_that_a_plane_through_zero_cannot() -> None:
    z, y, x, _ = two_worlds(3000)
    x = x[:, :1] + 10  # all on one side of the origin
    test = two_worlds(3000, seed=1)
    fits = [
        GroupCalibration(n_partitions=3, bias=b, from_logits=True).fit(z, y, features=x)
        for b in (False, True)
    ]
    scores = [
        pb.log_score(test[1], m.predict_proba(test[0], features=test[2][:, :1] + 10)) for m in fits
    ]
    assert scores[1] < scores[0] - 0.1
    assert (fits[0].intercepts_ == 0).all()


def test_separate_steps_are_the_fit_of_a_mask() -> None:
    z, y, x, _ = two_worlds(1200)
    mask = np.arange(1200) % 3 > 0
    whole = GroupCalibration(n_partitions=3, from_logits=True).fit(
        z, y, features=x, grouping_rows=mask
    )
    steps = GroupCalibration(n_partitions=3, from_logits=True).learn_groups(
        z[mask], y[mask], features=x[mask]
    )
    with pytest.raises(Exception, match="not fitted"):
        steps.predict_proba(z, features=x)
    steps.fit_calibrators(z[~mask], y[~mask], features=x[~mask])
    np.testing.assert_array_equal(
        whole.predict_proba(z, features=x), steps.predict_proba(z, features=x)
    )
    assert steps.fit_report_.n == 400


def smooth_world(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `two_worlds`, but the temperature changes smoothly with the first of ten features, so
    that no partition is the right one."""
    rng = np.random.default_rng(seed)
    features, logits = rng.standard_normal((n, 10)), 2 * rng.standard_normal((n, 3))
    slope = np.exp(0.5 * features[:, 0])
    y = (logits * slope[:, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, y, features, slope


def test_partitions_differ_only_if_rows_are_resampled() -> None:
    """The penalised loss has one minimum here: without resamples, U does not matter. With them,
    partitions differ, and their mean has a lower true log loss."""
    z, y, x, _ = smooth_world(2000, 0)
    new, _, points, slope = smooth_world(20_000, 1)
    truth = softmax(new * slope[:, None])
    losses = {}
    for resample in (False, True):
        for count in (1, 20):
            model = GroupCalibration(n_partitions=count, resample=resample, from_logits=True).fit(
                z, y, features=x
            )
            probs = model.predict_proba(new, features=points)
            losses[resample, count] = -(truth * np.log(probs)).sum(axis=1).mean()
        groups = np.array([part.values for part in model.partitions(points)])
        apart = (groups != groups[0]).mean(axis=1)
        apart = np.minimum(apart, 1 - apart)[1:]  # the numbers of groups may be exchanged
        assert (apart > 0.01).all() if resample else (apart < 0.001).all()
    assert losses[False, 20] == pytest.approx(losses[False, 1], abs=1e-6)
    assert losses[True, 20] < losses[True, 1]
    assert losses[True, 20] < losses[False, 20]


def test_the_default_penalty_is_that_of_the_reference() -> None:
    z, y, x, _ = two_worlds(400)
    default, named = (
        GroupCalibration(n_partitions=2, penalty=penalty, from_logits=True).fit(z, y, features=x)
        for penalty in (None, 0.1 / (2 * 5))
    )
    np.testing.assert_array_equal(default.weights_, named.weights_)
    strong = GroupCalibration(n_partitions=2, penalty=10.0, from_logits=True).fit(z, y, features=x)
    assert np.abs(strong.weights_).max() < 0.1 * np.abs(default.weights_).max()


# --- laws


@pytest.mark.parametrize("kind", range(5))
def test_weights_are_repeats_and_order_does_not_matter(kind: int) -> None:
    z, y, *_ = two_worlds(150)
    rng = np.random.default_rng(3)
    w = rng.integers(0, 4, len(y))
    weighted = clone(all_kinds(from_logits=True)[kind]).fit(z, y, sample_weight=0.7 * w)
    repeated = rng.permutation(np.repeat(np.arange(len(y)), w))
    plain = clone(all_kinds(from_logits=True)[kind]).fit(z[repeated], y[repeated])
    np.testing.assert_allclose(weighted.predict_proba(z), plain.predict_proba(z), atol=1e-6)
    assert weighted.fit_report_.score_after == pytest.approx(
        plain.fit_report_.score_after, abs=1e-6
    )


@pytest.mark.parametrize("name", ["features", "groups"])
def test_weights_are_repeats_with_features_and_groups(name: str) -> None:
    z, y, x, hidden = two_worlds(400)
    w = np.random.default_rng(3).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), w)
    model, extra = with_extra(name, x, hidden)
    weighted = clone(model).fit(z, y, w, **{name: extra}).predict_proba(z, **{name: extra})
    plain = (
        clone(model).fit(z[rows], y[rows], **{name: extra[rows]}).predict_proba(z, **{name: extra})
    )
    np.testing.assert_allclose(weighted, plain, atol=1e-6)


@pytest.mark.parametrize("kind", range(5))
def test_logits_and_their_probabilities_are_the_same(kind: int) -> None:
    z, y, *_ = two_worlds(200)
    logits = all_kinds(from_logits=True)[kind].fit(z, y)
    probs = all_kinds()[kind].fit(softmax(z), y)
    if isinstance(logits, GroupCalibration):
        # its own split and its resamples depend on the values as they came
        mask = np.arange(200) % 2 == 0
        logits.set_params(resample=False).fit(z, y, grouping_rows=mask)
        probs.set_params(resample=False).fit(softmax(z), y, grouping_rows=mask)
    np.testing.assert_allclose(logits.predict_proba(z), probs.predict_proba(softmax(z)), atol=1e-5)


def test_the_split_keeps_equal_rows_together_and_classes_in_proportion() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.integers(0, 3, (500, 2)).astype(float), rng.integers(0, 2, 500)
    sample, _ = distinct(Sample(z, True, y, np.ones(500)), z, 0)
    assert len(sample) == len(np.unique(np.column_stack([z, y]), axis=0)) == 18
    assert sample.weights.sum() == 500
    order = rng.permutation(500)
    again, _ = distinct(Sample(z[order], True, y[order], np.ones(500)), z[order], 0)
    np.testing.assert_array_equal(sample.values, again.values)
    z, y = rng.normal(size=(1000, 2)), np.repeat([0, 1], [900, 100])
    sample, _ = distinct(Sample(z, True, y, np.ones(1000)), z, 0)
    chosen = first_share(sample, 0.3)
    assert [int(chosen[sample.codes == k].sum()) for k in (0, 1)] == [270, 30]
    other = first_share(distinct(Sample(z, True, y, np.ones(1000)), z, 1)[0], 0.3)
    assert (chosen != other).any()


@pytest.mark.parametrize("base", [TemperatureScaling(), EnsembleTemperature()])
def test_the_most_probable_class_is_kept(base: Calibrator) -> None:
    z, y, x, hidden = two_worlds(600)
    nearly = np.array(
        [
            [1.0, np.nextafter(1, 2), 0.0],
            [0.5, 0.5, 0.5],
            [0.0, 1e-17, 0.0],
            [1e5, 1e5, -1e5],
            [0.0, -0.0, 0.0],
        ]
    )
    rows, points = np.concatenate([z, nearly]), np.concatenate([x, x[:5]])
    for chain in (Chain([base, base], from_logits=True), Chain(from_logits=True)):
        assert chain.accuracy_preserving
        np.testing.assert_array_equal(
            chain.fit(z, y).predict_proba(rows).argmax(axis=1), rows.argmax(axis=1)
        )
    for name, later in (("features", points), ("groups", np.append(hidden, [0, 1, 0, 1, 7]))):
        model, extra = with_extra(name, x, hidden)
        model.set_params(base=base).fit(z, y, **{name: extra})
        assert model.accuracy_preserving
        probs = model.predict_proba(rows, **{name: later})
        np.testing.assert_array_equal(probs.argmax(axis=1), rows.argmax(axis=1))
    for model in (
        GroupCalibration(VectorScaling()),
        PerGroup(VectorScaling()),
        Chain([TemperatureScaling(), VectorScaling()]),
    ):
        assert not model.accuracy_preserving


# --- edges


@pytest.mark.parametrize("kind", range(5))
def test_rows_stay_probabilities_on_edges(kind: int) -> None:
    certain = np.array(
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [5e-324, 1.0], [1 - 2**-53, 2**-53]] * 3
    )
    huge = np.array([[1e5, -1e5, 0.0], [0.0, 1e5, 1e5], [-1e5, 0.0, 1e5]] * 4)
    constant = np.full((30, 3), 1 / 3)
    rng = np.random.default_rng(0)
    wide = 5 * rng.standard_normal((40, 1000))
    worlds = [
        (certain, np.arange(15) % 2, False),
        (np.array([[0.2, 0.8], [0.7, 0.3]]), [0, 1], False),
        (huge, np.arange(12) % 3, True),
        (constant, np.arange(30) % 2, False),
        (constant.astype(np.float32), np.arange(30) % 2, False),
        (wide, np.arange(40) % 7, True),
        (np.linspace(0, 1, 30), np.arange(30) % 2, False),
    ]
    for P, y, from_logits in worlds:
        model = all_kinds(from_logits=from_logits)[kind].fit(P, y)
        found = model.predict_proba(P)
        assert found.shape == (len(P), max(2, P.shape[1] if P.ndim == 2 else 2))
        assert (found >= 0).all()
        assert (found <= 1).all()
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_string_labels_and_a_class_without_rows() -> None:
    z, y, x, hidden = two_worlds(300)
    z = np.column_stack([z, z[:, 0] - 1])
    names = np.array(["c", "a", "b"])[y]
    chain = Chain([TemperatureScaling()])
    for model, extra in (
        (chain, {}),
        (PerGroup(), {"groups": hidden}),
        (GroupCalibration(n_partitions=2), {"features": x}),
    ):
        model.set_params(from_logits=True, classes=["c", "a", "b", "never"]).fit(z, names, **extra)
        probs = model.predict_proba(z, **extra)
        assert probs.shape == (300, 4)
        assert (probs[:, 3] > 0).all()
        np.testing.assert_array_equal(
            model.predict(z, **extra), np.array(["c", "a", "b", "never"])[z.argmax(axis=1)]
        )


def test_small_groups_keep_the_temperature_learned_with_them() -> None:
    z, y, x, hidden = two_worlds(2000)
    model = GroupCalibration(n_partitions=1, min_rows=100, from_logits=True).learn_groups(
        z, y, features=x
    )
    here = np.flatnonzero(hidden == 0)
    some = np.concatenate([here[:300], np.flatnonzero(hidden == 1)[:5]])
    model.fit_calibrators(z[some], y[some], features=x[some])
    assert sorted(model.member_of_.ravel()) == [-1, 0]
    assert (
        "1 of 2 groups have fewer than 100 distinct rows or one class" in model.fit_report_.status
    )
    small = int(np.argmin(model.member_of_[0]))
    far = np.zeros((3, 5))
    far[:, 0] = 5.0
    expected = softmax(z[:3] / model.temperatures_[0, small])
    np.testing.assert_allclose(model.predict_proba(z[:3], features=far), expected, atol=1e-12)
    nearly = np.array([[1.0, np.nextafter(1, 2), 0.0], [0.0, 1e-17, 0.0], [0.0, 0.0, -1.0]])
    assert model.predict_proba(nearly, features=far).argmax(axis=1).tolist() == [1, 1, 0]
    wrong = z[some[-5:]].argmin(axis=1)  # now these five rows speak against their sharp temperature
    y = y.copy()
    y[some[-5:]] = wrong
    model.fit_calibrators(z[some], y[some], features=x[some])
    assert "(1 of them the identity)" in model.fit_report_.status
    np.testing.assert_allclose(model.predict_proba(z[:3], features=far), softmax(z[:3]), atol=1e-12)


def test_one_class_in_every_group_leaves_no_calibrator() -> None:
    P = np.array([[0.9, 0.1]] * 20 + [[0.1, 0.9]] * 20)
    y = np.repeat([0, 1], 20)
    model = GroupCalibration(n_partitions=2, min_rows=1).fit(P, y, features=np.where(y, 5.0, -5.0))
    assert model.members_ == []
    assert (model.predict_proba(P, features=np.where(y, 5.0, -5.0)).argmax(axis=1) == y).all()


def test_per_group_learns_each_and_shares_for_the_rest() -> None:
    z, y, _, hidden = two_worlds(40_000)
    names = np.where(hidden, "sharp", "flat").astype("<U5")
    names[:9] = "few"
    assert len(np.unique(y[:9])) > 1
    model = PerGroup(from_logits=True).fit(z, y, groups=names)
    assert model.groups_.tolist() == ["few", "flat", "sharp"]
    assert model.member_of_.tolist() == [-1, 0, 1]
    assert [m.temperature_ for m in model.members_] == pytest.approx([3, 1 / 3], rel=0.1)
    assert "2 of 3 groups" in model.fit_report_.status
    assert "'few': fewer than 10 rows or one class" in model.fit_report_.status
    whole = TemperatureScaling(from_logits=True).fit(z, y).predict_proba(z[:2])
    np.testing.assert_allclose(model.predict_proba(z[:2], groups=["few", "new"]), whole, atol=1e-12)
    direct = TemperatureScaling(from_logits=True).fit(z[names == "flat"], y[names == "flat"])
    np.testing.assert_allclose(
        model.predict_proba(z[:2], groups=["flat"] * 2), direct.predict_proba(z[:2]), atol=1e-12
    )
    np.testing.assert_array_equal(model.predict(z[:2], groups=["flat"] * 2), z[:2].argmax(axis=1))


def test_a_chain_is_its_steps_in_turn() -> None:
    z, y, *_ = two_worlds(500)
    chain = Chain([VectorScaling(), TemperatureScaling()], from_logits=True).fit(z, y)
    first = VectorScaling(from_logits=True).fit(z, y)
    middle = first.predict_proba(z)
    second = TemperatureScaling().fit(middle, y)
    np.testing.assert_allclose(chain.predict_proba(z), second.predict_proba(middle), atol=1e-12)
    nested = Chain(
        [Chain([VectorScaling()]), PerGroup(), GroupCalibration(n_partitions=2)], from_logits=True
    ).fit(z, y)
    assert np.isfinite(nested.predict_proba(z)).all()
    np.testing.assert_allclose(
        Chain(from_logits=True).fit(z, y).predict_proba(z), softmax(z), atol=1e-15
    )


def test_bad_input_is_named() -> None:
    z, y, x, hidden = two_worlds(60)
    model = GroupCalibration(n_partitions=2, from_logits=True)
    bad = x.copy()
    bad[3, 1] = np.nan
    cases = [
        (lambda: model.fit(z, y, features=bad), r"`features`: .*\(row 3: "),
        (lambda: model.fit(z, y, features=x[:10]), "`features`.*60 rows"),
        (lambda: model.fit(z, y, features=x, grouping_rows=np.arange(60)), "`grouping_rows`"),
        (lambda: model.fit(z, y, features=x, grouping_rows=np.ones(60, bool)), "`grouping_rows`"),
        (
            lambda: clone(model).set_params(start=np.zeros((2, 2, 4))).fit(z, y, features=x),
            r"`start`.*\(2, 2, 5\)",
        ),
        (lambda: clone(model).set_params(n_groups=0).fit(z, y), "`n_groups`"),
        (lambda: clone(model).set_params(penalty=-1.0).fit(z, y), "`penalty`"),
        (lambda: clone(model).set_params(grouping_share=1.0).fit(z, y), "`grouping_share`"),
        (lambda: clone(model).set_params(base="temperature").fit(z, y), "`base`"),
        (
            lambda: model.fit(z, y, features=x).predict_proba(z),
            "`features`: must be given: .*Pass those of these rows, or fit to rows without",
        ),
        (lambda: model.fit(z, y).predict_proba(z, features=x), "`features`: must not be given"),
        (
            lambda: model.fit(z, y, features=x).predict_proba(z, features=x[:, :4]),
            r"`features`: must have the 5 columns .*\(found: 4\)",
        ),
        (
            lambda: model.learn_groups(z, y, features=x).fit_calibrators(
                z, np.array(list("abc"))[y], features=x
            ),
            "`y`",
        ),
        (lambda: PerGroup(from_logits=True).fit(z, y, groups=hidden[:5]), "`groups`"),
        (
            lambda: PerGroup(from_logits=True).fit(z, y, groups=[None, *hidden[1:]]),
            r"`groups`: .*\(row 0: ",
        ),
        (
            lambda: PerGroup(from_logits=True).fit(z, y, groups=hidden).predict_proba(z),
            "`groups`: must be given",
        ),
        (lambda: PerGroup(min_rows=0, from_logits=True).fit(z, y), "`min_rows`"),
        (lambda: Chain(["temperature"]).fit(softmax(z), y), "`steps`"),
    ]
    for job, words in cases:
        with pytest.raises(InputError, match=words):
            job()


@pytest.mark.parametrize("kind", range(5))
def test_scikit_learn_contract(kind: int) -> None:
    model = all_kinds(from_logits=True)[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own checks warn
        results = check_estimator(model, on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_learned_state_is_plain(learned: GroupCalibration) -> None:
    for name in learned._fitted:
        value = getattr(learned, name)
        assert isinstance(value, (str, np.ndarray)) or all(
            isinstance(one, Calibrator) for one in value
        )
    copy = clone(learned)
    for name in (*learned._fitted, "classes_", "n_features_in_"):
        setattr(copy, name, getattr(learned, name))
    z, _, x, _ = two_worlds(50)
    np.testing.assert_array_equal(
        copy.predict_proba(z, features=x), learned.predict_proba(z, features=x)
    )


# --- golden numbers


@pytest.mark.parametrize("name", ["digits_mlp", "spambase_mlp"])
def test_golden_group_calibration(shared, name: str) -> None:
    """ThyrixYang/group_calibration@1fb9c6b from its own starting weights
    (golden/e_group_calibration.json)."""
    expected = json.loads((shared / "golden" / "e_group_calibration.json").read_text())["cases"][
        name
    ]
    stored = np.load(shared / "golden" / f"e_gc_{name}.npz")
    val, test = (np.load(shared / "data" / f"own_{name}_{part}.npz") for part in ("val", "test"))
    z, y, x = test["logits"], test["labels"], test["features"]
    held, judged = stored["idx_holdout"], stored["idx_test"]
    for key, base in (("temp_scaling", TemperatureScaling()), ("ets", EnsembleTemperature())):
        start = stored[f"W_init_{key}"]
        model = GroupCalibration(base, start=start, resample=False, from_logits=True)
        model.learn_groups(val["logits"], val["labels"], features=val["features"])
        probs = model.fit_calibrators(z[held], y[held], features=x[held]).predict_proba(
            z[judged], features=x[judged]
        )
        golden = expected[f"GC+{key}"]
        score, error = pb.log_score(y[judged], probs), pb.calibration_error(y[judged], probs)
        assert np.mean(probs.argmax(axis=1) == y[judged]) == pytest.approx(golden["acc"], abs=1e-6)
        if np.isnan(golden["nll"]):  # ETS of the reference overflows
            assert score < expected["TS"]["nll"]
            assert error < expected["TS"]["ece_m"]
            continue
        assert score == pytest.approx(golden["nll"], abs=1e-3)
        if key == "temp_scaling":
            assert error == pytest.approx(golden["ece_m"], abs=2e-3)
        # In the digits, up to 5 of 673 rows are in groups for which the reference fitted a
        # calibrator to a row or two; we keep the temperature learned with the grouping. ETS moves
        # their confidence by up to 0.52, and so the ECE by 0.0025.
        settled = np.ones(len(judged), bool)
        for weights in stored[f"W_fit_{key}"]:
            groups = (x @ weights.T).argmax(axis=1)
            settled &= np.bincount(groups[held], minlength=2)[groups[judged]] >= 10
        assert settled.sum() >= len(judged) - 5
        theirs = stored[f"probs_{key}"].astype(np.float64)
        errors = [pb.calibration_error(y[judged][settled], p[settled]) for p in (probs, theirs)]
        assert errors[0] == pytest.approx(errors[1], abs=2e-3)


def test_partitions_of_the_reference_are_the_same_too(shared) -> None:
    """The 20 partitions that ThyrixYang/group_calibration@1fb9c6b learned for Spambase differ in
    four rows of 2,000 at most (golden/e_gc_spambase_mlp.npz): it is the loss that has one minimum,
    not our search."""
    stored = np.load(shared / "golden" / "e_gc_spambase_mlp.npz")
    x = np.load(shared / "data" / "own_spambase_mlp_test.npz")["features"]
    groups = np.array([(x @ W.T).argmax(axis=1) for W in stored["W_fit_temp_scaling"]])
    apart = (groups != groups[0]).mean(axis=1)
    assert len(groups) == 20
    assert np.minimum(apart, 1 - apart).max() < 0.002
