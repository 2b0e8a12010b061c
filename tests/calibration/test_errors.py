"""Calibration errors by hand, against plain numpy, and the laws they obey."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probaudit as pb
from tests.conftest import softmax

law = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
DISTANCES = ("l1", "tvd", "l2", "squared", "max", "brier", "log")
every_distance = pytest.mark.parametrize("distance", DISTANCES)


def world(seed, n=40, classes=3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n) * 0.97 + 0.03 / classes
    y = np.array([rng.choice(classes, p=row**2 / (row**2).sum()) for row in p])
    return rng, y, p


def gap(distance, output, target):
    """The distance of one cell, for its mean output and target as vectors."""
    single, d = len(output) == 1, np.asarray(output) - target
    if distance == "log":
        o, t = ([[v[0], 1 - v[0]] for v in (output, target)]) if single else (output, target)
        return sum(a * np.log(a / b) for a, b in zip(t, o, strict=True) if a > 0)
    return {
        "l1": np.abs(d).sum(),
        "tvd": np.abs(d).sum() / (1 if single else 2),
        "l2": (d**2).sum() ** 0.5,
        "squared": (d**2).sum(),
        "max": np.abs(d).max(),
        "brier": (d**2).sum(),
    }[distance]


def oracle(distance, outputs, targets, keys, weights):
    """The weighted mean over cells, each found by its key."""
    total = 0.0
    for key in set(keys):
        rows = [i for i, k in enumerate(keys) if k == key]
        w = weights[rows]
        means = [np.average(values[rows], axis=0, weights=w) for values in (outputs, targets)]
        total += w.sum() / weights.sum() * gap(distance, *means)
    return total


def views(name, y, p):
    """Outputs and targets as the lens should show them, [n, d]; several for classwise."""
    onehot = np.eye(p.shape[1])[y]
    if name == "top":
        return [(p.max(axis=1)[:, None], (p.argmax(axis=1) == y)[:, None].astype(float))]
    if name == "full":
        return [(p, onehot)]
    if name == "groups":
        return [tuple(np.column_stack([x[:, 0] + x[:, 2], x[:, 1]]) for x in (p, onehot))]
    return [(p[:, [k]], onehot[:, [k]]) for k in range(p.shape[1])]


LENSES = {
    "top": pb.TopLabel(),
    "full": pb.Full(),
    "groups": pb.Groups([[0, 2], [1]]),
    "classwise": pb.Classwise(),
}


def bin_keys(outputs, bins):
    columns = outputs if outputs.shape[1] == 1 else outputs[:, :-1]
    return [tuple(np.minimum((row * bins).astype(int), bins - 1)) for row in columns]


GROUP = np.array(list("abcab") * 8)
PARTITIONS = {
    "width": (pb.EqualWidth(4), lambda o: bin_keys(o, 4)),
    "column": (pb.Column(GROUP), lambda o: list(GROUP)),
    "both": (
        pb.EqualWidth(4) * pb.Column(GROUP),
        lambda o: list(zip(bin_keys(o, 4), GROUP, strict=True)),
    ),
    "whole": (pb.Whole(), lambda o: [0] * len(o)),
    "each": (pb.Each(), lambda o: range(len(o))),
}


@every_distance
@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_against_plain_numpy(distance, lens, partition):
    rng, y, p = world(1)
    weights, (cells, keys) = rng.uniform(0.1, 3, len(y)), PARTITIONS[partition]
    for w in (None, weights):
        plain = np.ones(len(y)) if w is None else w
        expected = [oracle(distance, o, t, keys(o), plain) for o, t in views(lens, y, p)]
        found = pb.calibration_error(
            y, p, lens=LENSES[lens], partition=cells, distance=distance, sample_weight=w
        )
        assert found == pytest.approx(np.mean(expected), rel=1e-10, abs=1e-12)
        assert found.n == len(y)
        assert list(found.per_class.values()) == pytest.approx(
            expected if lens == "classwise" else []
        )


# Two cells of top-label outputs: {0.6, 0.8} with one hit of two, {0.9} with a hit.
HAND = {"l1": (2 * 0.2 + 0.1) / 3, "squared": (2 * 0.04 + 0.01) / 3, "worst": 0.2}


def test_by_hand():
    y, p = [1, 0, 0], [[0.4, 0.6], [0.2, 0.8], [0.9, 0.1]]
    cells = pb.Edges([0, 0.85, 1])
    assert pb.calibration_error(y, p, partition=cells) == pytest.approx(HAND["l1"])
    assert pb.calibration_error(y, p, partition=cells, distance="squared") == pytest.approx(
        HAND["squared"]
    )
    worst = pb.calibration_error(y, p, partition=cells, worst=True)
    assert worst == pytest.approx(HAND["worst"])
    assert "largest cell" in worst.definition
    # t (1 - t) / (n - 1) = 1/4 in the cell of two rows, and the cell of one row is left out.
    debiased = pb.calibration_error(y, p, partition=cells, distance="squared", debias=True)
    assert debiased == pytest.approx(0.04 - 0.25)
    assert "1 cells of one row left out" in debiased.definition
    assert pb.rms_calibration_error(y, p, partition=cells) == 0
    assert pb.rms_calibration_error(y, p, partition=cells, debias=False) == pytest.approx(
        HAND["squared"] ** 0.5
    )


def test_classes_have_their_names():
    found = pb.calibration_error(
        ["b", "a"],
        [[0.9, 0.1], [0.3, 0.7]],
        classes=["a", "b"],
        lens=pb.Classwise(),
        partition=pb.Each(),
    )
    assert found.per_class == pytest.approx({"a": 0.8, "b": 0.8})


BETWEEN = [
    (pb.InterInterval(0.4, 0.5), [0.9, 0.2, 0.5], [0.1, 0.3, 0.0], [0.3, 0.8, 0.45]),
    (pb.IntervalTVD(0.4, 0.5), [0.9, 0.2, 0.5], [0.6, 0.6, 0.0], [0.3, 0.8, 0.45]),
    (pb.Mahalanobis([4.0]), [0.9, 0.2, 0.5], [1.2, 1.2, 0.1], [0.3, 0.8, 0.45]),
    (pb.Lq(3), [[0.5, 0.5]], [2 ** (1 / 3) * 0.2], [[0.3, 0.7]]),
    (pb.Mahalanobis([[2, 1], [1, 3]]), [[0.5, 0.5]], [(0.04 * (2 - 2 + 3)) ** 0.5], [[0.3, 0.7]]),
    (pb.Mahalanobis([2, 3]), [[0.5, 0.5]], [(0.04 * 5) ** 0.5], [[0.3, 0.7]]),
    (pb.Divergence(pb.Log()), [0.5], [0.0], [0.5]),
]


@pytest.mark.parametrize(("distance", "outputs", "expected", "targets"), BETWEEN)
def test_distances_by_hand(distance, outputs, expected, targets):
    found = distance.between(np.array(outputs), np.array(targets))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@law
@given(st.sampled_from(DISTANCES), seeds)
def test_weights_are_repeats_and_zero_is_absence(distance, seed):
    rng, y, p = world(seed, 20)
    times, group = rng.integers(0, 4, 20), rng.integers(0, 3, 20)
    times[0] += 1
    rows = np.repeat(np.arange(20), times)
    for lens in (pb.TopLabel(), pb.Full(), pb.Classwise()):
        for partition, repeated in (
            (pb.EqualWidth(4),) * 2,
            (pb.Column(group), pb.Column(group[rows])),
        ):
            weighted = pb.calibration_error(
                y, p, lens=lens, partition=partition, distance=distance, sample_weight=times
            )
            again = pb.calibration_error(
                y[rows], p[rows], lens=lens, partition=repeated, distance=distance
            )
            assert weighted == pytest.approx(again, abs=1e-12)
            assert weighted.n == (times > 0).sum()


def test_logits_are_softmax_probabilities():
    z = np.random.default_rng(0).normal(size=(60, 3)) * 3
    y = z.argmax(axis=1)
    for lens in LENSES.values():
        found = pb.calibration_error(y, z, lens=lens, from_logits=True)
        assert found == pytest.approx(pb.calibration_error(y, softmax(z), lens=lens), abs=1e-12)
        logs = pb.calibration_error(y, np.log(softmax(z)), lens=lens, from_log_probs=True)
        assert logs == pytest.approx(found, abs=1e-12)


@law
@given(seeds)
def test_the_ends_are_the_score_and_the_marginals(seed):
    """Yang et al. 2023, Examples 4 and 5."""
    rng, y, p = world(seed, 25)
    w = rng.uniform(0.1, 2, 25)
    for weights in (None, w):
        options = {"lens": pb.Full(), "sample_weight": weights}
        each = pb.partitioned_calibration_error(y, p, pb.Each(), distance="brier", **options)
        assert each == pytest.approx(pb.brier_score(y, p, sample_weight=weights), abs=1e-12)
        each = pb.partitioned_calibration_error(y, p, [pb.Each()], distance="log", **options)
        assert each == pytest.approx(pb.log_score(y, p, sample_weight=weights), abs=1e-12)
        whole = pb.partitioned_calibration_error(y, p, [pb.Whole()], distance="tvd", **options)
        apart = np.average(p, axis=0, weights=weights) - np.average(
            np.eye(3)[y], axis=0, weights=weights
        )
        assert whole == pytest.approx(np.abs(apart).sum() / 2, abs=1e-12)


@law
@given(st.sampled_from(DISTANCES), seeds)
def test_several_partitions_are_a_mean(distance, seed):
    rng, y, p = world(seed, 25)
    partitions = [pb.EqualWidth(3), pb.Whole(), pb.Column(rng.integers(0, 4, 25))]
    shares = rng.dirichlet(np.ones(3))
    for lens in (pb.TopLabel(), pb.Classwise()):
        single = [
            pb.calibration_error(y, p, lens=lens, partition=q, distance=distance)
            for q in partitions
        ]
        found = pb.partitioned_calibration_error(
            y, p, partitions, lens=lens, distance=distance, weights=shares
        )
        assert found == pytest.approx(shares @ single, abs=1e-12)
        even = pb.partitioned_calibration_error(y, p, partitions, lens=lens, distance=distance)
        assert even == pytest.approx(np.mean(single), abs=1e-12)


@law
@given(st.sampled_from(DISTANCES), seeds)
def test_the_order_of_classes_and_rows_does_not_matter(distance, seed):
    rng, y, p = world(seed)
    classes, rows = rng.permutation(3), rng.permutation(len(y))
    for lens, partition in [
        (pb.Full(), pb.Each()),
        (pb.Full(), pb.Whole()),
        (pb.Full(), pb.KDTree(0.2)),
        (pb.TopLabel(), pb.EqualWidth(5)),
        (pb.TopK(2), pb.EqualWidth(3)),
        (pb.Classwise(), pb.EqualMass(5)),
    ]:
        options = {"lens": lens, "partition": partition, "distance": distance}
        found = pb.calibration_error(y, p, **options)
        renamed = pb.calibration_error(np.argsort(classes)[y], p[:, classes], **options)
        assert renamed == pytest.approx(found, abs=1e-12)
        assert pb.calibration_error(y[rows], p[rows], **options) == pytest.approx(found, abs=1e-12)


@law
@given(st.sampled_from(DISTANCES), seeds)
def test_coarser_cells_never_raise_the_error(distance, seed):
    """Jensen: every one of these distances is convex in both arguments together."""
    rng, y, p = world(seed)
    a, b = (pb.Column(rng.integers(0, 4, len(y))) for _ in range(2))
    w = rng.uniform(0.1, 2, len(y))
    for lens in (pb.TopLabel(), pb.Full(), pb.Classwise()):
        chain = [
            pb.calibration_error(y, p, lens=lens, partition=q, distance=distance, sample_weight=w)
            for q in (pb.Each(), a * b, a, pb.Whole())
        ]
        assert all(fine >= coarse - 1e-12 for fine, coarse in pairwise(chain))


@law
@given(st.sampled_from(DISTANCES), seeds)
def test_the_top_label_is_a_lower_bound(distance, seed):
    """Chidambaram & Ge 2024, Lemma 4.6 and Corollary 4.7. The cells of the full error must tell the
    predicted class."""
    rng, y, p = world(seed)
    cells, predicted = pb.Column(rng.integers(0, 4, len(y))), pb.Column(p.argmax(axis=1))
    for fine, coarse in (
        (cells * predicted, cells * predicted),
        (cells * predicted, cells),
        (pb.Each(), pb.EqualWidth(5)),
    ):
        full = pb.calibration_error(y, p, lens=pb.Full(), partition=fine, distance=distance)
        top = pb.calibration_error(y, p, lens=pb.TopLabel(), partition=coarse, distance=distance)
        assert top <= full + 1e-12


Y, P = [0, 1, 2, 1], np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.4, 0.2]])
REFUSED = {
    "distance": (lambda: pb.calibration_error(Y, P, distance="l3"), "one of l1, tvd"),
    "debias": (
        lambda: pb.calibration_error(Y, P, distance="l2", debias=True),
        'distance="squared"',
    ),
    "debias l1": (lambda: pb.calibration_error(Y, P, lens=pb.Full(), debias=True), "single event"),
    "debias Each": (
        lambda: pb.calibration_error(Y, P, partition=pb.Each(), distance="squared", debias=True),
        "two rows",
    ),
    "debias worst": (
        lambda: pb.calibration_error(Y, P, distance="squared", debias=True, worst=True),
        "largest",
    ),
    "bandwidth": (lambda: pb.kernel_calibration_error(Y, P, bandwidth=0), "bandwidth"),
    "bandwidth NaN": (lambda: pb.kernel_calibration_error(Y, P, bandwidth=np.nan), "bandwidth"),
    "score": (lambda: pb.kernel_calibration_error(Y, P, score="l1"), "one of log, brier"),
    "kernel": (
        lambda: pb.kernel_calibration_error(Y, P, kernel="box"),
        "one of gaussian, epanechnikov",
    ),
    "kernel of several": (
        lambda: pb.kernel_calibration_error(Y, P, lens=pb.Full()),
        "single event",
    ),
    "smooth of several": (
        lambda: pb.smooth_calibration_error(Y, P, lens=pb.TopK(2)),
        "single event",
    ),
    "sigma": (lambda: pb.smooth_calibration_error(Y, P, sigma=0.0), "sigma"),
    "resamples": (lambda: pb.calibration_test(Y, P, resamples=0), "resamples"),
    "not PSD": (lambda: pb.Mahalanobis([[1, 2], [2, 1]]), "positive semi-definite"),
    "negative diagonal": (lambda: pb.Mahalanobis([1, -1]), "positive semi-definite"),
    "not square": (lambda: pb.Mahalanobis([[1, 2]]), "square"),
    "size": (
        lambda: pb.calibration_error(Y, P, lens=pb.Full(), distance=pb.Mahalanobis([1, 1])),
        "one row for each of the 3 outputs",
    ),
    "interval of several": (
        lambda: pb.calibration_error(Y, P, lens=pb.Full(), distance=pb.InterInterval(0, 1)),
        "single",
    ),
    "interval": (lambda: pb.IntervalTVD(0.6, 0.5), "low <= high"),
    "norm": (lambda: pb.Lq(0.5), "q"),
    "no partitions": (lambda: pb.partitioned_calibration_error(Y, P, []), "at least one"),
    "shares": (
        lambda: pb.partitioned_calibration_error(Y, P, [pb.Whole()] * 2, weights=[0.5, 0.6]),
        "sum to 1",
    ),
    "share negative": (
        lambda: pb.partitioned_calibration_error(Y, P, [pb.Whole()] * 2, weights=[1.5, -0.5]),
        "probabilities",
    ),
    "label": (lambda: pb.calibration_error([0, 1, 7, 1], P), "row 2: label 7"),
    "row sum": (lambda: pb.smooth_calibration_error(Y, P + 0.1), "row 0: sums to 1.3"),
    "no weight": (
        lambda: pb.kernel_calibration_error(Y, P, sample_weight=[0] * 4),
        "no row is left",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(pb.InputError, match=message):
        make()


def test_errors_survive_pickling():
    found = pb.calibration_error(Y, P, lens=pb.Classwise())
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, pb.CalibrationError)
    assert (again, again.n, again.definition, again.per_class) == (
        found,
        found.n,
        found.definition,
        found.per_class,
    )
    np.testing.assert_array_equal(again.cells[2].outputs, found.cells[2].outputs)


def test_a_probability_a_little_above_one_has_a_divergence():
    assert pb.calibration_error(
        [0, 1], [[1.000001, 0.0], [0.2, 0.8]], distance="log"
    ) == pytest.approx(-np.log(0.8) / 2)


def test_the_interval_of_smooth_ece_is_as_wide_below_as_above():
    """Outputs near 1 with events in 75% of the rows: SmoothECE is nearly the mean of output minus
    event, whose standard error is known. Interpolating unsorted draws made the lower half 25% too
    short."""
    rng = np.random.default_rng(0)
    p = np.clip(1 - rng.exponential(0.01, 1000), 0.9, 1)
    y = (rng.random(1000) < p - 0.25).astype(int)
    found = pb.smooth_calibration_error(y, p, lens=pb.Binary(), interval=True, resamples=999)
    half = 1.96 * (p - y).std() / np.sqrt(1000)
    assert found == pytest.approx((p - y).mean(), abs=1e-3)
    assert found - found.low == pytest.approx(half, rel=0.1)
    assert found.high - found == pytest.approx(half, rel=0.1)
