"""Lenses by hand, in composition, and what they refuse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probaudit as pb
from probaudit.choices.lenses import Composed, View

P = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 0.0]])
Y = np.array([1, 3, 0])

BY_HAND = {
    "full": (pb.Full(), P, Y),
    "top label": (pb.TopLabel(), [0.5, 0.4, 1.0], [0, 1, 0]),
    "top 1": (pb.TopK(1), [[0.5, 0.5], [0.4, 0.6], [1.0, 0.0]], [1, 0, 1]),
    "top 2": (pb.TopK(2), [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], [1, 0, 1]),
    "top 3": (
        pb.TopK(3),
        [[0.5, 0.3, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1], [1.0, 0.0, 0.0, 0.0]],
        [1, 0, 1],
    ),
    "one vs rest": (pb.OneVsRest(3), [0.1, 0.4, 0.0], [0, 1, 0]),
    "groups": (pb.Groups([[0, 3], [1, 2]]), [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]], [1, 0, 0]),
    "groups by name": (
        pb.Groups({"a": [3, 0], "b": (1, 2)}),
        [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]],
        [1, 0, 0],
    ),
    "group of each class": (
        pb.Groups([7, 9, 9, 7]),
        [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]],
        [1, 0, 0],
    ),
    "group name of each class": (
        pb.Groups(["a", "b", "b", "a"]),
        [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]],
        [1, 0, 0],
    ),
    "groups in an array": (
        pb.Groups(np.array([0, 1, 1, 0])),
        [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]],
        [1, 0, 0],
    ),
    "groups as sets": (
        pb.Groups([{0, 3}, range(1, 3)]),
        [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]],
        [1, 0, 0],
    ),
    "groups | top label": (pb.Groups([[0, 3], [1, 2]]) | pb.TopLabel(), [0.6, 0.5, 1.0], [0, 1, 0]),
    "groups | one vs rest": (
        pb.Groups([[0, 3], [1, 2]]) | pb.OneVsRest(1),
        [0.4, 0.5, 1.0],
        [1, 0, 0],
    ),
    "groups | groups": (
        pb.Groups([[0], [1], [2, 3]]) | pb.Groups([[0, 1], [2]]),
        [[0.8, 0.2], [0.3, 0.7], [0, 1]],
        [0, 1, 0],
    ),
    "top 2 | one vs rest": (pb.TopK(2) | pb.OneVsRest(2), [0.2, 0.3, 0.0], [0, 0, 0]),
    "an event | binary": (pb.OneVsRest(3) | pb.Binary(), [0.1, 0.4, 0.0], [0, 1, 0]),
    "an event | full": (
        pb.OneVsRest(3) | pb.Full(),
        [[0.9, 0.1], [0.6, 0.4], [1.0, 0.0]],
        [0, 1, 0],
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    lens, outputs, labels = BY_HAND[name]
    found = lens.view(P, Y)
    np.testing.assert_allclose(found.outputs, outputs, atol=1e-15)
    np.testing.assert_array_equal(found.labels, labels)
    assert len(lens.views(P, Y)) == 1


def test_binary_shows_the_second_class():
    found = pb.Binary().view(np.array([[0.2, 0.8], [0.7, 0.3]]), np.array([1, 0]))
    np.testing.assert_array_equal(found.outputs, [0.8, 0.3])
    np.testing.assert_array_equal(found.labels, [1, 0])


def test_targets_have_the_shape_of_the_outputs():
    np.testing.assert_array_equal(pb.OneVsRest(1).view(P, Y).targets, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(
        pb.Full().view(P, Y).targets, [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    )


def test_classwise_shows_every_class():
    views = pb.Classwise().views(P, Y)
    assert len(views) == 4
    for k, view in enumerate(views):
        np.testing.assert_array_equal(view.outputs, P[:, k])
        np.testing.assert_array_equal(view.labels, k == Y)


def test_classwise_through_groups():
    groups = pb.Groups([[0, 3], [1], [2]])
    views = (groups | pb.Classwise()).views(P, Y)
    np.testing.assert_allclose(
        [v.outputs for v in views], [[0.6, 0.5, 0], [0.3, 0.2, 0], [0.1, 0.3, 1]]
    )
    np.testing.assert_array_equal([v.labels for v in views], [[0, 1, 1], [1, 0, 0], [0, 0, 0]])
    error = pb.calibration_error(Y, P, lens=groups | pb.Classwise())
    single = [pb.calibration_error(Y, P, lens=groups | pb.OneVsRest(k)) for k in range(3)]
    assert error == pytest.approx(np.mean(single), abs=1e-15)


def test_a_lens_after_classwise_looks_at_every_class():
    views = (pb.Classwise() | pb.TopLabel()).views(P, Y)
    np.testing.assert_allclose(views[0].outputs, [0.5, 0.9, 1.0])
    # of 0.5 against 0.5 the lower, "not class 0", comes first
    np.testing.assert_array_equal(views[0].labels, [1, 1, 0])


def test_composition_is_associative():
    a, b, c = pb.Groups([[0], [1], [2, 3]]), pb.TopK(2), pb.OneVsRest(1)
    for left, right in zip(((a | b) | c).view(P, Y), (a | (b | c)).view(P, Y), strict=True):
        np.testing.assert_array_equal(left, right)


TIES = [
    ([0.4, 0.4, 0.2], 0, [1, 0]),
    ([0.4, 0.4, 0.2], 1, [0, 1]),
    ([0.2, 0.4, 0.4], 1, [1, 0]),
    ([0.2, 0.4, 0.4], 2, [0, 1]),
    ([0.5, 0.25, 0.25], 2, [0, 2]),
    ([1 / 3, 1 / 3, 1 / 3], 2, [0, 2]),
]


@pytest.mark.parametrize(("row", "label", "expected"), TIES)
def test_of_equal_probabilities_the_lower_class_comes_first(row, label, expected):
    row, label = np.array([row]), np.array([label])
    assert [
        pb.TopLabel().view(row, label).labels[0],
        pb.TopK(2).view(row, label).labels[0],
    ] == expected


REFUSED = {
    "k too large": (pb.TopK(4), "k"),
    "class outside": (pb.OneVsRest(4), "index"),
    "class negative": (pb.OneVsRest(-1), "index"),
    "not two classes": (pb.Binary(), "Binary requires two classes"),
    "classwise has no single view": (pb.Classwise(), "lens"),
    "several views": (pb.Groups([[0, 1], [2, 3]]) | pb.Classwise(), "single induced problem"),
    "not covered": (pb.Groups([[0, 1], [2]]), "class 3 is in none"),
    "nothing covered": (pb.Groups([]), "class 0 is in none"),
    "overlap": (pb.Groups([[0, 1], [1, 2, 3]]), "class 1 is in two"),
    "twice in a group": (pb.Groups([[0, 0], [1, 2, 3]]), "class 0 is in two"),
    "out of range": (pb.Groups([[0, 1], [2, 4]]), "columns 0 to 3"),
    "negative": (pb.Groups([[0, 1, 2], [-1]]), "columns 0 to 3"),
    "too few names": (pb.Groups(["a", "b", "a"]), "each of the 4 classes"),
    "inner lens": (pb.Groups([[0, 1], [2, 3]]) | pb.TopK(2), "k"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    lens, message = REFUSED[name]
    with pytest.raises(pb.InputError, match=message):
        lens.view(P, Y)


@pytest.mark.parametrize("k", [0, -1])
def test_no_top_of_nothing(k):
    with pytest.raises(pb.InputError, match="at least 1"):
        pb.TopK(k)


def test_a_lens_of_your_own():
    @dataclass(frozen=True)
    class Rival(pb.Lens):
        """Class a against class b, given that it is one of the two."""

        a: int
        b: int

        def view(self, probs, labels):
            return View(
                probs[:, self.a] / (probs[:, self.a] + probs[:, self.b]),
                (labels == self.a).astype(int),
            )

    y, p = [0, 1, 1], [[0.6, 0.2, 0.2], [0.3, 0.3, 0.4], [0.1, 0.3, 0.6]]
    found = pb.calibration_error(y, p, lens=Rival(0, 1), partition=pb.Each())
    assert found == pytest.approx((0.25 + 0.5 + 0.25) / 3)
    assert "Rival(a=0, b=1)" in found.definition
    composed = pb.Groups([[0], [1], [2]]) | Rival(0, 1)
    assert isinstance(composed, Composed)
    assert pb.calibration_error(y, p, lens=composed, partition=pb.Each()) == pytest.approx(found)


def test_sums_of_groups_do_not_exceed_one():
    """Rounded sums above 1 have no logarithm of the rest."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), 5000)
    assert (p.sum(axis=1) > 1).any()
    lens = pb.Groups([range(5)]) | pb.OneVsRest(0)
    assert lens.view(p, np.zeros(5000, int)).outputs.max() == 1
    assert (
        pb.calibration_error(np.zeros(5000, int), p, lens=lens, distance="log", partition=pb.Each())
        < 1e-12
    )


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_outputs_stay_probabilities_and_hits_stay_hits(seed, classes):
    rng = np.random.default_rng(seed)
    p, y = rng.dirichlet(np.ones(classes), 20), rng.integers(0, classes, 20)
    groups = rng.integers(0, 3, classes)
    for lens in (pb.Full(), pb.Groups(groups), *(pb.TopK(k) for k in range(1, classes))):
        view = lens.view(p, y)
        np.testing.assert_allclose(view.outputs.sum(axis=1), 1, atol=1e-12)
        assert view.labels.min() >= 0
        assert view.labels.max() < view.outputs.shape[1]
    top = pb.TopLabel().view(p, y)
    np.testing.assert_array_equal(top.outputs, pb.TopK(1).view(p, y).outputs[:, 0])
    np.testing.assert_array_equal(top.labels, pb.TopK(1).view(p, y).labels == 0)
    names = np.unique(groups)
    np.testing.assert_array_equal(names[pb.Groups(groups).view(p, y).labels], groups[y])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [3, 64, 65, 200])
@pytest.mark.parametrize("decimals", [2, 15])
def test_the_top_of_many_classes(classes, dtype, decimals):
    """As a stable sort finds it, also where values are equal, or differ by a unit in the last
    place."""
    rng = np.random.default_rng(0)
    p, y = (
        rng.dirichlet(np.full(classes, 0.3), 200).round(decimals) + 1e-3,
        rng.integers(0, classes, 200),
    )
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    p[::2, -1] = np.nextafter(p[::2].max(axis=1), dtype(1))
    for k in {1, 2, 5, 16, 17, 64, 65, classes - 1}:
        if k >= classes:
            continue
        order = np.argsort(-p, axis=1, kind="stable")[:, :k]
        found = pb.TopK(k).view(p, y)
        np.testing.assert_array_equal(found.outputs[:, :k], np.take_along_axis(p, order, axis=1))
        hit = order == y[:, None]
        np.testing.assert_array_equal(
            found.labels, np.where(hit.any(axis=1), hit.argmax(axis=1), k)
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "classes"), [(1, 3), (15, 8), (16, 9), (50, 30), (33, 101)])
def test_groups_are_summed_in_the_order_of_classes(rows, classes, dtype):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(classes), rows).astype(dtype)
    for member in (
        rng.integers(0, 3, classes),
        np.sort(rng.integers(0, 3, classes)),
        np.zeros(classes, int),
    ):
        expected = np.zeros((rows, 3))
        for k in range(classes):
            expected[:, member[k]] += p[:, k]
        found = pb.Groups(member.tolist()).view(p, np.zeros(rows, int)).outputs
        np.testing.assert_array_equal(found, np.minimum(expected, 1)[:, np.unique(member)])


@pytest.mark.parametrize("classes", [4, 100])
def test_the_top_may_be_negative_zeros(classes):
    p = np.full((1, classes), -0.0)
    p[0, 1] = 1
    np.testing.assert_array_equal(pb.TopK(3).view(p, np.array([1])).outputs, [[1, 0, 0, 0]])


def composed_rows():
    rng = np.random.default_rng(5)
    return rng.integers(0, 3, 400), rng.dirichlet(np.ones(3), 400)


def test_selections_compose():
    y, p = composed_rows()
    top, hit = p.max(axis=1), p.argmax(axis=1) == y
    masks = {
        pb.LabelIs(2) & pb.OutputIn(0.5, 1): (y == 2) & (top >= 0.5),
        pb.OutputIn(0, 0.4) | pb.OutputIn(0.7, 1): (top <= 0.4) | (top >= 0.7),  # not contiguous
        ~(pb.LabelIs(2) & pb.OutputIn(0.5, 1)): ~((y == 2) & (top >= 0.5)),
        pb.LabelIs(0) | pb.PredictedIs(1): (y == 0) | (p.argmax(axis=1) == 1),
        ~pb.LabelIs(0) & (np.arange(400) < 300): (y != 0) & (np.arange(400) < 300),
    }
    for where, mask in masks.items():
        found, by_hand = (pb.calibration_error(y, p, where=chosen) for chosen in (where, mask))
        assert float(found) == float(by_hand)
        assert found.n == mask.sum()
        bins = pb.EqualWidth(15).cells(top[mask])
        sums = np.bincount(bins, (top - hit)[mask])
        assert float(found) == pytest.approx(np.abs(sums).sum() / mask.sum())


def test_a_selection_says_what_it_keeps():
    y, p = composed_rows()
    found = pb.calibration_error(y, p, where=pb.LabelIs(2) & ~pb.OutputIn(0.5, 1))
    assert "where (LabelIs(index=2) & ~OutputIn(low=0.5, high=1, index=None))" in found.definition


@pytest.mark.parametrize(
    ("index", "of"), [(1, lambda p: p[:, 1]), ("max", lambda p: p.max(axis=1))]
)
def test_output_selections_of_vectors(index, of):
    y, p = composed_rows()
    mask = (of(p) >= 0.3) & (of(p) <= 0.6)
    options = {"lens": pb.Full(), "partition": pb.KDTree(0.2), "distance": "tvd"}
    found = pb.calibration_error(y, p, where=pb.OutputIn(0.3, 0.6, index=index), **options)
    assert float(found) == float(
        pb.calibration_error(y[mask], p[mask], classes=[0, 1, 2], **options)
    )
    with pytest.raises(pb.InputError, match="requires `index`"):
        pb.calibration_error(y, p, where=pb.OutputIn(0.3, 0.6), **options)
    with pytest.raises(pb.InputError, match="0 to 2"):
        pb.calibration_error(y, p, where=pb.OutputIn(0.3, 0.6, index=3), **options)
    with pytest.raises(pb.InputError, match="several outputs"):
        pb.calibration_error(y, p, where=pb.OutputIn(0.3, 0.6, index=0))


def test_ends_of_selections_are_edges_of_bins():
    assert pb.OutputIn(0.7, 1).mask(
        pb.choices.lenses.View(np.array([0.7, 0.69], np.float32), np.zeros(2))
    ).tolist() == [
        True,
        False,
    ]
    with pytest.raises(pb.InputError, match="at most"):
        pb.OutputIn(0.7, 0.3)


def test_classes_may_have_weights():
    y, p = composed_rows()
    each = list(pb.calibration_error(y, p, lens=pb.Classwise()).per_class.values())
    shares = np.bincount(y) / len(y)
    for weights, expected in (
        ("prevalence", shares),
        ([2, 1, 1], [0.5, 0.25, 0.25]),
        ((1, 1, 1), np.full(3, 1 / 3)),
    ):
        for partition in (pb.EqualWidth(15), pb.EqualMass(7)):
            each = list(
                pb.calibration_error(
                    y, p, lens=pb.Classwise(), partition=partition
                ).per_class.values()
            )
            found = pb.calibration_error(
                y, p, lens=pb.Classwise(weights=weights), partition=partition
            )
            assert float(found) == pytest.approx(np.dot(expected, each), rel=1e-12)
            assert list(found.per_class.values()) == each
    one = pb.calibration_error(y, p, lens=pb.Classwise(weights=[0, 1, 0]), interval=True)
    alone = pb.calibration_error(y, p, lens=pb.OneVsRest(1), interval=True)
    assert float(one) == pytest.approx(float(alone))
    # the shape of gaps is that of all classes
    assert one.high == pytest.approx(alone.high, rel=0.25)
    squares = [
        pb.rms_calibration_error(y, p, lens=pb.OneVsRest(k), debias=False) ** 2 for k in range(3)
    ]
    root = pb.rms_calibration_error(y, p, lens=pb.Classwise(weights="prevalence"), debias=False)
    assert root**2 == pytest.approx(shares @ squares)


@pytest.mark.parametrize("weights", [[1, 1], [1, -1, 1], [0, 0, 0], "rarity"])
def test_weights_of_classes_that_are_none(weights):
    y, p = composed_rows()
    with pytest.raises(pb.InputError, match="weights"):
        pb.calibration_error(y, p, lens=pb.Classwise(weights=weights))


def test_weights_of_classes_are_not_ignored():
    y, p = composed_rows()
    with pytest.raises(pb.InputError, match="class weights"):
        pb.smooth_calibration_error(y, p, lens=pb.Classwise(weights="prevalence"))


def test_weights_of_classes_may_be_an_array():
    assert pb.Classwise(weights=np.array([1.0, 2.0])) == pb.Classwise(weights=[1, 2])
    with pytest.raises(pb.InputError, match="prevalence"):
        pb.Classwise(weights="even")
