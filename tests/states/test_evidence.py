"""Evidence: one pass gathers what an audit needs, the same bytes for any cutting, and a sample by
row number."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.audits.audit import audit_evidence
from probaudit.choices.lenses import Classwise
from probaudit.engines.memory import evidence_of, gather, run
from probaudit.states import Plan, evidence
from probaudit.states.evidence import EvidenceState, sample_size
from probaudit.states.sampling import drawn, priority


@pytest.fixture(scope="module")
def world():
    return pb.simulate.gaussian_posteriors(5000, 4, seed=5)


def rows_of_kind(world, kind: str) -> pb.Predictions:
    weights = np.random.default_rng(0).random(len(world.y))
    binary = (world.y == 1).astype(int)
    return {
        "probabilities": lambda: pb.Predictions(world.y, world.mcs),
        "float32": lambda: pb.Predictions(world.y, world.mcs.astype(np.float32)),
        "logits": lambda: pb.Predictions(world.y, np.log(world.mcs) + 1, from_logits=True),
        "log-probabilities": lambda: pb.Predictions(
            world.y, np.log(world.mcs), from_log_probs=True
        ),
        "one column": lambda: pb.Predictions(binary, world.mcs[:, 1]),
        "one logit": lambda: pb.Predictions(
            binary, np.log(world.mcs[:, 1] / (1 - world.mcs[:, 1])), from_logits=True
        ),
        "weights": lambda: pb.Predictions(world.y, world.mcs, sample_weight=weights),
        "pairs": lambda: pb.Predictions.from_confidence(
            world.mcs.max(axis=1), world.mcs.argmax(axis=1) == world.y
        ),
        "weighted pairs": lambda: pb.Predictions.from_confidence(
            world.mcs.max(axis=1), world.mcs.argmax(axis=1) == world.y, sample_weight=weights
        ),
        "dropped": lambda: pb.Predictions(
            np.where(np.arange(len(world.y)) % 7 == 0, 9, world.y), world.mcs, on_bad_rows="drop"
        ),
    }[kind]()


KINDS = (
    "probabilities",
    "float32",
    "logits",
    "log-probabilities",
    "one column",
    "one logit",
    "weights",
    "pairs",
    "weighted pairs",
    "dropped",
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bytes_for_any_cutting(world, kind):
    rows = rows_of_kind(world, kind)
    plan = Plan.of(rows)

    def found(**options):
        return run(rows, lambda: EvidenceState(plan), **options).to_bytes()

    whole = found(threads=1, rows_per_block=len(rows))
    for options in (
        {"threads": 1, "rows_per_block": 333},
        {"threads": 2, "rows_per_block": 1024},
        {"threads": 8},
    ):
        assert found(**options) == whole
    parts = [
        EvidenceState(plan).update(rows.block(first, first + 1700)) for first in (3400, 0, 1700)
    ]
    assert parts[0].merge(parts[1]).merge(parts[2]).merge(EvidenceState(plan)).to_bytes() == whole


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_what_the_lenses_show(world, kind):
    rows = rows_of_kind(world, kind)
    found = evidence_of(rows, Plan.of(rows))
    K, total = rows.n_classes, found.summary.log.weight.sum()
    assert found.summary.rows == found.top.rows.sum() == len(rows) - found.summary.dropped
    assert found.top.hits.sum() / total == pytest.approx(
        pb.audit(rows, repair=False)["accuracy"], abs=1e-12
    )
    assert found.top.weight.sum() == pytest.approx(total)
    assert len(found.classes) == (0 if rows.pairs else K)
    assert set(found.ranks) == (set() if rows.pairs else {k for k in (2, 3, 5, 10) if k < K})
    for k, sums in enumerate(found.classes):
        assert sums.hits.sum() == pytest.approx(found.summary.log.weight[k])
        assert sums.outputs.sum() == pytest.approx(found.summary.outputs[k], rel=1e-9)
    for k, sums in found.ranks.items():
        assert sums.hits.sum() == pytest.approx(found.summary.ranks[:k].sum())


def test_classes_have_the_grids_of_the_lens(world):
    from probaudit.engines.good_rows import events

    rows = pb.Predictions(world.y, world.cal)
    mine, theirs = evidence_of(rows, Plan.of(rows)).classes, events(rows, Classwise())
    for sums, grid in zip(mine, theirs, strict=True):
        assert all(
            np.array_equal(a, b)
            for a, b in zip(vars(sums).values(), vars(grid.finalise()).values(), strict=True)
        )


def test_the_fingerprint_is_that_of_the_statistics(world):
    import hashlib

    rows = pb.Predictions(world.y, world.cal)
    state = gather(rows, Plan.of(rows))
    assert (
        evidence_of(rows, Plan.of(rows)).fingerprint
        == hashlib.sha256(state.to_bytes()).hexdigest()[:16]
    )


def test_a_bad_row_is_named_whatever_tile_it_is_in(world):
    p = world.cal.copy()
    p[4321] = 0.7
    with pytest.raises(pb.InputError, match="row 4321"):
        pb.audit(world.y, p)


def test_no_row_left(world):
    with pytest.raises(pb.InputError, match="no row is left to judge"):
        pb.audit([7, 7], [[0.5, 0.5], [0.5, 0.5]], on_bad_rows="drop")


def test_samples_are_by_row_number():
    places = drawn(10_000, 700)
    assert len(places) == len(set(places.tolist())) == 700
    assert (np.diff(places) > 0).all()
    keys = priority(np.arange(10_000))
    assert keys[places].max() < np.delete(keys, places).min()
    # Without pattern: each tenth of the rows has its share, within five standard deviations of a
    # multinomial count.
    counts = np.bincount(places // 1000, minlength=10)
    assert np.abs(counts - 70).max() < 5 * np.sqrt(70 * 0.9)


def test_sample_size_counts_outputs_and_features():
    assert sample_size(1000) == 20_000
    assert sample_size(10) == evidence.SAMPLE_ROWS
    assert sample_size(10**9) == 1


def test_what_is_fitted_uses_the_sample_and_says_so(world, monkeypatch):
    columns = {"half": np.arange(len(world.y)) % 2}
    features = np.column_stack([world.cal[:, 0], np.arange(len(world.y)) % 3])
    options = {"columns": columns, "features": features}
    whole = pb.audit(world.y, world.mcs, **options)
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 1000)
    found = pb.audit(world.y, world.mcs, repair="compare", **options)
    assert found.evidence.sampled
    assert len(found.evidence.sample) == 1000
    assert np.array_equal(found.evidence.places, drawn(len(world.y), 1000))
    # Numbers of all rows are those of all rows.
    for name in ("accuracy", "log_score", "brier_score.normalized", "reject_risk"):
        assert found[name] == whole[name]
        assert found[name].n == len(world.y)
    for mine, theirs in zip(found.errors[:-1], whole.errors[:-1], strict=True):
        assert mine.name == theirs.name != "full_ece"
        # from the rows where all are at hand, else from the grid
        if mine.name in ("ace", "rms_error"):
            measure = pb.rms_calibration_error if mine.name == "rms_error" else pb.calibration_error
            for error, exact in ((mine, False), (theirs, True)):
                expected = measure(world.y, world.mcs, partition=pb.EqualMass(15), exact=exact)
                assert float(error.estimate) == pytest.approx(float(expected), rel=1e-9)
                assert ("from a grid" in error.estimate.definition) is not exact
            continue
        if mine.name == "ece":
            assert float(mine.estimate) == pytest.approx(float(theirs.estimate), rel=1e-9)
            assert mine.null_mean == pytest.approx(theirs.null_mean, rel=1e-9)
            continue
        assert float(mine.estimate) == float(theirs.estimate)
        # classes are drawn together only where all rows are at hand
        if mine.name == "classwise_ece":
            assert mine.null_mean == pytest.approx(theirs.null_mean, rel=0.05)
        else:
            assert mine.null_mean == theirs.null_mean
    assert found.fingerprint == whole.fingerprint
    # What is fitted rests on the sample alone, and its definition tells.
    taken = drawn(len(world.y), 1000)
    again = pb.calibration_loss(world.y[taken], world.mcs[taken])
    assert found["calibration_loss.relative"] == again.relative
    said = "on a sample of 1,000 rows"
    for name in ("calibration_loss", "log_score.calibrated"):
        assert said in found[name].definition
        assert said not in whole[name].definition
    assert said in found["grouping_loss.relative"].definition
    assert said in found.errors[-1].estimate.definition
    assert all(said in repair.log_score.definition for repair in found.repairs)
    assert sum(group.rows for group in found.groups) == 1000
    assert all(said in group.observed.definition for group in found.groups)
    assert found.to_dict()["sample_rows"] == 1000
    # the totals of the budget are of all rows, and the gain is that of the sample
    assert found.budget.total is found["log_score.normalized"]
    best = found.recommended
    assert best.name != "identity"
    assert float(best.normalized) == pytest.approx((1 - best.gain) * found.budget.total)
    assert float(found.budget.removed) == pytest.approx(best.gain * found.budget.total)


def test_names_of_features_survive_the_sample(world, monkeypatch):
    import pandas as pd

    skewed = np.random.default_rng(1).random(len(world.y))
    frame = pd.DataFrame({"age": skewed, "site": np.where(skewed > 0.5, "north", "south")})
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 2000)
    found = pb.audit(world.y, world.mcs, features=frame, repair=False)
    table = found.budget.found.regions
    rules = " ".join(table[i].rule for i in range(len(table)))
    assert "age" in rules or "site" in rules


def test_an_audit_needs_the_evidence_alone(world):
    rows = pb.Predictions(world.y, world.mcs)
    plan = Plan.of(
        rows, {"costs": pb.Cost([[0, 1, 1, 1], [2, 0, 1, 1], [1, 1, 0, 1], [1, 1, 3, 0]])}, 0.2
    )
    found = audit_evidence(evidence_of(rows, plan), title="mine")
    same = pb.audit(rows, costs=plan.costs["costs"], reject_cost=0.2, title="mine")
    assert found.to_json() == same.to_json()
    assert found.costs == plan.costs["costs"]
    assert repr(found).startswith("RECALIBRATE FIRST  mine  4,999 rows, 4 classes")
