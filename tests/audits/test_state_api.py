"""States through the public function `pb.statistics`."""

from __future__ import annotations

import pickle
import re
import uuid
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit.audits.state import State, statistics
from probaudit.states import AuditState, Plan

DOCS = Path(__file__).parents[2] / "docs" / "states.md"
WORLD = pb.simulate.gaussian_posteriors(600, 3, seed=2)
Y, P = WORLD.y, WORLD.cal
N = len(Y)
RNG = np.random.default_rng(1)
WEIGHTS = RNG.uniform(0.1, 3, N)

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "probabilities": ({"classes": 3}, {"y_true": Y, "y_proba": P}),
    "float32": ({"classes": 3}, {"y_true": Y, "y_proba": P.astype(np.float32)}),
    "names": ({"classes": ["a", "b", "c"]}, {"y_true": np.array(["a", "b", "c"])[Y], "y_proba": P}),
    "logits": ({"classes": 3, "from_logits": True}, {"y_true": Y, "y_proba": np.log(P) + 1}),
    "log_probs": ({"classes": 3, "from_log_probs": True}, {"y_true": Y, "y_proba": np.log(P)}),
    "one column": ({"classes": 2}, {"y_true": (Y == 0).astype(int), "y_proba": P[:, 0]}),
    "pairs": ({"pairs": True}, {"y_true": Y == 0, "y_proba": P[:, 0]}),
    "weights": (
        {"classes": 3, "max_weight": 3.0},
        {"y_true": Y, "y_proba": P, "sample_weight": WEIGHTS},
    ),
    "costs": (
        {"classes": 3, "costs": [[0, 1, 2], [1, 0, 1], [5, 1, 0]]},
        {"y_true": Y, "y_proba": P},
    ),
    "features": (
        {"classes": 3},
        {"y_true": Y, "y_proba": P, "features": P[:, :2], "columns": {"who": Y % 2}},
    ),
    "drop": (
        {"classes": 3, "on_bad_rows": "drop"},
        {"y_true": np.where(np.arange(N) % 50 == 7, 9, Y), "y_proba": P},
    ),
}


def part_of(rows: dict[str, Any], where: Any) -> dict[str, Any]:
    columns = (
        {"columns": {k: v[where] for k, v in rows["columns"].items()}} if "columns" in rows else {}
    )
    return {name: value[where] for name, value in rows.items() if name != "columns"} | columns


def memory(declared: dict[str, Any], rows: dict[str, Any]) -> bytes:
    """The state of all rows at once, declared by the rows themselves."""
    options = {
        name: value for name, value in declared.items() if name not in ("max_weight", "costs")
    }
    options["classes"] = None if isinstance(options.get("classes"), int) else options.get("classes")
    rest = {name: value for name, value in rows.items() if name not in ("y_true", "y_proba")}
    predictions = pb.Predictions(rows["y_true"], rows["y_proba"], **options, **rest)
    costs = {"costs": pb.Cost(np.array(declared["costs"]))} if "costs" in declared else {}
    return AuditState.empty(Plan.of(predictions, costs)).update(predictions).to_bytes()


@pytest.mark.parametrize("case", CASES)
def test_any_split_of_the_rows_gives_the_state_of_memory(case):
    declared, rows = CASES[case]
    whole = memory(declared, rows)
    one = statistics(**declared)
    for first in range(0, N, 97):
        one.update(**part_of(rows, slice(first, first + 97)))
    assert one.to_bytes() == whole

    cuts = [0, 1, 3, 10, 300, N]
    apart = [
        statistics(**declared).update(**part_of(rows, slice(a, b)), start=a)
        for a, b in pairwise(cuts)
    ]
    order = [3, 0, 4, 2, 1]
    assert reduce(add, [apart[i] for i in order]).to_bytes() == whole
    assert (
        (apart[0] + apart[1]) + (statistics(**declared) + (apart[4] + (apart[2] + apart[3])))
    ).to_bytes() == whole

    mixed = RNG.permutation(N)
    shuffled = statistics(**declared).update(**part_of(rows, mixed), numbers=mixed)
    assert shuffled.to_bytes() == whole


def test_numbers_with_gaps():
    odd = np.arange(1, N, 2)
    halves = [
        statistics(classes=3).update(Y[part], P[part], numbers=part)
        for part in (odd[::-1], odd - 1)
    ]
    assert (halves[0] + halves[1]).to_bytes() == statistics(classes=3).update(Y, P).to_bytes()


def test_parts_add_up_to_the_sums_of_the_whole():
    parts = [statistics(classes=3, part=i).update(Y[i::4], P[i::4]) for i in range(4)]
    both, whole = reduce(add, parts), statistics(classes=3).update(Y, P)
    assert both.sums.to_bytes() == whole.sums.to_bytes()
    assert both.finalise().fingerprint == whole.finalise().fingerprint
    assert list(both.covered)[3] == (3 * 2**33, 3 * 2**33 + len(Y[3::4]))
    assert sorted(both.finalise().sample.probs[:, 0]) == sorted(P[:, 0])


def test_a_part_continues_its_row_numbers():
    once = statistics(classes=3, part=5).update(Y, P)
    twice = statistics(classes=3, part=5).update(Y[:10], P[:10]).update(Y[10:], P[10:])
    assert once.to_bytes() == twice.to_bytes()


def test_a_state_of_predictions_takes_further_rows():
    rows = pb.Predictions(Y, P, sample_weight=WEIGHTS)
    assert statistics(rows).to_bytes() == memory(*CASES["weights"])
    heavier = statistics(rows, max_weight=1000)
    heavier.update(Y[:1], P[:1], sample_weight=[900.0])
    assert heavier.rows == N + 1
    with pytest.raises(pb.InputError, match="must not exceed"):
        statistics(rows).update(Y[:1], P[:1], sample_weight=[900.0])


@pytest.mark.parametrize("last", [False, True])
def test_a_bad_row_adds_nothing(last):
    n = 70_000  # more than is looked at together
    y, p = np.ones(n, int), np.full(n, 0.7)
    state = statistics(classes=2).update([1, 0], [0.5, 0.5])
    before = state.to_bytes()
    p[-1 if last else 0] = 1.5
    with pytest.raises(pb.InputError, match=f"row {n + 1 if last else 2}"):
        state.update(y, p)
    assert state.to_bytes() == before
    with pytest.raises(pb.InputError, match="already"):
        state.update([1, 0, 0], [0.5] * 3, numbers=[7, 1, 9])
    assert state.to_bytes() == before


@pytest.mark.parametrize("numbers", [None, np.arange(1000, 1000 + 2 * N, 2)])
def test_rows_with_other_columns_raise_and_add_nothing(numbers):
    state = statistics(classes=3).update(Y, P, features=P[:, :2])
    before = state.to_bytes()
    with pytest.raises(pb.InputError, match="same parts"):
        state.update(Y, P, numbers=numbers)
    assert state.to_bytes() == before
    assert state.update(Y, P, features=P[:, :2], numbers=numbers).finalise().summary.rows == 2 * N


def test_a_part_is_saved():
    empty = State.from_bytes(statistics(classes=3, part=5).to_bytes())
    assert empty.part == 5
    rows = empty.update(Y, P)
    assert next(iter(rows.covered)) == (5 * 2**33, 5 * 2**33 + N)
    again = State.from_bytes(rows.to_bytes())
    assert again.part == 5
    assert again.to_bytes() == rows.to_bytes()
    mine, other = (
        statistics(classes=3, part=1).update(Y, P),
        statistics(classes=3, part=2).update(Y, P),
    )
    assert State.from_bytes(mine.to_bytes()).merge(other).to_bytes() == other.merge(mine).to_bytes()
    with pytest.raises(pb.InputError, match="no row was given"):
        statistics(classes=3, sample_rows=10).audit()


def test_empty_blocks_and_states():
    empty = statistics(classes=3)
    assert empty.update([], np.empty((0, 3))).to_bytes() == statistics(classes=3).to_bytes()
    assert (empty + empty).rows == 0
    with pytest.raises(pb.InputError, match="no row was given"):
        empty.finalise()
    one = statistics(classes=3).update(Y, P)
    assert (empty + one).to_bytes() == (one + empty).to_bytes() == one.to_bytes()


def test_adding_changes_neither():
    a, b = statistics(classes=3).update(Y, P), statistics(classes=3, part=1).update(Y, P)
    before = a.to_bytes(), b.to_bytes()
    assert (a + b).rows == 2 * N
    assert (a.to_bytes(), b.to_bytes()) == before


def test_states_can_be_saved_and_pickled(tmp_path):
    state = statistics(classes=["x", "y", "z"], max_weight=4, costs=np.eye(3)).update(
        np.array(["x", "y", "z"])[Y],
        P,
        sample_weight=WEIGHTS,
        columns={"day": np.array(["mon", "tue"])[Y % 2]},
    )
    state.save(tmp_path / "state.npz")
    for again in (
        State.load(tmp_path / "state.npz"),
        State.from_bytes(state.to_bytes()),
        pickle.loads(pickle.dumps(state)),
    ):
        assert isinstance(again, State)
        assert again.to_bytes() == state.to_bytes()
        more = again + statistics(classes=["x", "y", "z"], max_weight=4, costs=np.eye(3), part=1)
        assert more.to_bytes() == state.to_bytes()


ODD = {
    "nullable text": pd.array(["a", "b", pd.NA] * 200, dtype="string"),
    "whole numbers": np.array([np.int64(i % 3) for i in range(N)], object),
    "identifiers": np.array([uuid.UUID(int=i % 3) for i in range(N)], object),
    "intervals": pd.Series(pd.cut(P[:, 0], 3)).to_numpy(),
    "records": np.array([{"site": i % 3} for i in range(N)], object),
    "numpy's text": np.array(["a", "b", "c"] * 200, np.dtypes.StringDType()),
    "numpy's records": np.array([(i % 3, "x") for i in range(N)], [("site", int), ("by", object)]),
    "lists": pd.Series([[i % 3] * (i % 2) for i in range(N)]).to_numpy(),
}


@pytest.mark.parametrize("odd", ODD)
def test_column_values_of_any_kind_are_kept_as_reports_show_them(odd):
    rows = pb.Predictions(Y, P, columns={"group": ODD[odd]})
    state = statistics(classes=3)
    for first in range(0, N, 250):
        state.update(rows.take(slice(first, first + 250)))
    kept = State.from_bytes(state.to_bytes())
    said = [str(value) for value in rows.columns["group"].tolist()]
    assert [str(value) for value in kept.finalise().sample.columns["group"].tolist()] == said
    assert kept.audit(repair=False).to_dict() == pb.audit(rows, repair=False).to_dict()


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 no", statistics(classes=2).to_bytes()[:-100]]
)
def test_damaged_bytes_raise(content):
    with pytest.raises(pb.InputError, match="must be a complete file"):
        State.from_bytes(content)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({}, "classes"),
        ({"classes": 1}, "classes"),
        ({"classes": 0}, "classes"),
        ({"classes": True}, "classes"),
        ({"classes": "ab"}, "classes"),
        ({"classes": {1, 2}}, "classes"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"classes": 2, "max_weight": 0}, "max_weight"),
        ({"classes": 2, "max_weight": np.inf}, "max_weight"),
        ({"classes": 2, "max_weight": "1"}, "max_weight"),
        ({"classes": 2, "part": -1}, "part"),
        ({"classes": 2, "part": 2**30}, "part"),
        ({"classes": 2, "part": 0.5}, "part"),
        ({"classes": 2, "costs": np.eye(3)}, "costs"),
        ({"classes": 2, "reject_cost": 1}, "reject_cost"),
        ({"classes": 2, "tolerance": 1}, "tolerance"),
        ({"classes": 2, "on_bad_rows": "skip"}, "on_bad_rows"),
        ({"classes": 2, "sample_rows": 0}, "sample_rows"),
        ({"rows": [[0.1, 0.9]]}, "rows"),
        ({"rows": pb.Predictions(Y, P), "classes": 3}, "classes"),
        ({"rows": pb.Predictions(Y, P), "from_logits": True}, "from_logits"),
        ({"rows": pb.Predictions(Y, P), "on_bad_rows": "drop"}, "on_bad_rows"),
    ],
)
def test_invalid_declarations_raise(options, argument):
    with pytest.raises(pb.InputError) as problem:
        statistics(**options)
    assert problem.value.argument == argument


@pytest.mark.parametrize(
    ("rows", "argument"),
    [
        ({"y_true": Y}, "y_proba"),
        ({"y_true": Y[:5], "y_proba": P}, "y_true"),
        ({"y_true": Y, "y_proba": P[:, :2]}, "classes"),
        ({"y_true": pb.Predictions(Y, P), "y_proba": P}, "y_proba"),
        ({"y_true": pb.Predictions(Y, P), "sample_weight": WEIGHTS}, "sample_weight"),
        ({"y_true": Y, "y_proba": P, "sample_weight": WEIGHTS}, "sample_weight"),
        ({"y_true": pb.Predictions(Y, np.log(P), from_logits=True)}, "rows"),
        ({"y_true": pb.Predictions(Y == 0, P[:, 0])}, "classes"),
        ({"y_true": Y, "y_proba": P, "start": -1}, "start"),
        ({"y_true": Y, "y_proba": P, "numbers": np.arange(3)}, "numbers"),
        ({"y_true": Y, "y_proba": P, "numbers": np.linspace(0, 1, N)}, "numbers"),
        ({"y_true": Y, "y_proba": P, "numbers": np.zeros(N, int)}, "start"),
        ({"y_true": Y, "y_proba": P, "numbers": np.arange(N), "start": 0}, "numbers"),
        ({"y_true": Y + 5, "y_proba": P}, "y"),
    ],
)
def test_invalid_updates_raise(rows, argument):
    state = statistics(classes=3)
    with pytest.raises(pb.InputError) as problem:
        state.update(**rows)
    assert problem.value.argument == argument
    assert state.to_bytes() == statistics(classes=3).to_bytes()


def test_states_that_differ_cannot_be_merged():
    state = statistics(classes=3).update(Y, P)
    with pytest.raises(pb.InputError, match="same plan"):
        state + statistics(classes=2)
    with pytest.raises(pb.InputError, match="no row may be counted twice"):
        state + statistics(classes=3).update(Y, P)
    with pytest.raises(TypeError):
        state + 1


def test_a_state_gives_the_audit_of_its_rows():
    cuts = [0, 100, 101, N]  # in order, so that the sample is too
    state = reduce(
        add,
        [
            statistics(classes=3, part=i).update(Y[a:b], P[a:b])
            for i, (a, b) in enumerate(pairwise(cuts))
        ],
    )
    assert state.audit(repair=False).to_dict() == pb.audit(Y, P, repair=False).to_dict()


def test_statistics_is_a_public_function():
    from probaudit.states import Summary

    assert pb.statistics is statistics
    assert pb.State is State
    assert Summary.__module__ == "probaudit.states.summary"


def test_the_examples_of_the_document_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, *others = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(first, names)
    exec(next(code for code in others if "count_block" in code), names)
    assert names["whole"].sums.to_bytes() == names["both"].sums.to_bytes()
    assert "4,000" in capsys.readouterr().out


def test_an_empty_state_of_many_classes_is_read_again():
    empty = pb.statistics(classes=300)
    assert pb.State.from_bytes(empty.to_bytes()).to_bytes() == empty.to_bytes()
