"""The monitor: correct measures, few false alarms, and detection of drift."""

from __future__ import annotations

import math
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import probaudit as pb
from probaudit.audits.state import statistics
from probaudit.monitoring.drift import share_change
from probaudit.monitoring.moments import Moments, mean_p_value, score_moments, two_sided_p
from probaudit.monitoring.monitor import Monitor

DOCS = Path(__file__).parents[2] / "docs" / "monitoring.md"


def world(
    n: int, seed: int, *, bias: float = 0.0, scale: float = 1.0, spread: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from logits, and their probabilities. `bias` changes only the labels, `scale`
    only the outputs."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, spread, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-z - bias))).astype(int)
    return y, 1 / (1 + np.exp(-scale * z))


def rows(n: int, seed: int, **options: float) -> pb.Predictions:
    return pb.Predictions(*world(n, seed, **options))


def last(monitor: Monitor) -> dict[str, Any]:
    return {change.measure: change for change in monitor.checks[-1].changes}


def test_measures_agree_with_the_functions():
    reference, recent = rows(5000, 0), rows(2000, 1, bias=0.5)
    monitor = Monitor(reference, window=2000, every=2000)
    monitor.update(recent)
    found, p = last(monitor), recent.probs
    top, hit = np.maximum(p, 1 - p), (p > 0.5) == recent.y
    for side, data in (("reference", reference), ("recent", recent)):
        assert getattr(found["log_score"], side) == pytest.approx(pb.log_score(data), rel=1e-12)
        assert getattr(found["brier_score"], side) == pytest.approx(pb.brier_score(data), rel=1e-12)
        # from a grid of 420 cells, not 16,800
        assert getattr(found["smooth_ece"], side) == pytest.approx(
            pb.smooth_calibration_error(data), abs=2e-4
        )
    assert found["accuracy"].recent == pytest.approx(hit.mean(), rel=1e-12)
    assert found["confidence"].recent == pytest.approx(top.mean(), rel=1e-9)
    assert found["overconfidence"].recent == pytest.approx(top.mean() - hit.mean(), abs=1e-9)
    assert found["priors"].recent == pytest.approx(
        abs(recent.y.mean() - reference.y.mean()), rel=1e-12
    )
    assert found["infinite_rows"].recent == 0


@pytest.mark.parametrize("score", ["log", "brier"])
def test_moments_of_a_binary_score_are_those_of_its_rows(score):
    data = rows(3000, 4, scale=2.0)
    p_true = np.where(data.y == 1, data.probs, 1 - data.probs)
    each = -np.log(p_true) if score == "log" else 2 * (1 - p_true) ** 2
    summary = statistics(data).finalise().summary
    found = score_moments(getattr(summary, score), summary.grid, score)
    assert found.mean == pytest.approx(each.mean(), rel=1e-10)
    assert found.variance == pytest.approx(each.var(), rel=1e-9)
    assert found.third == pytest.approx(((each - each.mean()) ** 3).mean(), rel=1e-3)
    assert found.n == 3000


@pytest.mark.parametrize("expected", [0.5, 2, 10, 100])
@pytest.mark.parametrize("level", [1e-2, 1e-4, 1e-6])
def test_tails_of_rare_events_are_not_underestimated(expected, level):
    """Against the binomial probability of this many errors or more in 1,000 rows."""
    share = expected / 1000
    count = int(binom.isf(level, 1000, share)) + 1
    truth = 2 * binom.sf(count - 1, 1000, share)
    recent, reference = Moments.of_share(count / 1000, 1000), Moments.of_share(share, 1e12)
    assert truth < share_change("errors", recent, reference).p_value < 15 * truth


def test_p_values_are_two_sided_and_at_most_one():
    assert two_sided_p(0.0, 0.5) == 1
    assert two_sided_p(-3.0, -0.8) == two_sided_p(3.0, 0.8)
    assert two_sided_p(3.0, 0.8) > two_sided_p(3.0, 0.0) == two_sided_p(-3.0, 0.8)


def test_pooled_moments_are_those_of_the_rows():
    a, b = np.random.default_rng(0).gamma(2, size=300), np.random.default_rng(1).gamma(3, size=500)
    one = np.ones
    found = Moments.of_values(a, one(300), one(300)).pooled(
        Moments.of_values(b, one(500), one(500))
    )
    both = np.concatenate([a, b])
    assert found.mean == pytest.approx(both.mean())
    assert found.variance == pytest.approx(both.var())
    assert found.third == pytest.approx(((both - both.mean()) ** 3).mean())


def test_p_values_of_means_are_uniform_if_nothing_changed():
    """4,000 pairs of samples of a skewed loss: the share below each level, within 5 standard
    errors."""
    rng = np.random.default_rng(7)
    a, b = rng.gamma(0.3, size=(4000, 200)), rng.gamma(0.3, size=(4000, 800))

    def moments(x: np.ndarray) -> Moments:
        gap = x - x.mean(axis=1, keepdims=True)
        return Moments(x.mean(axis=1), (gap**2).mean(axis=1), (gap**3).mean(axis=1), x.shape[1])

    p = mean_p_value(moments(a), moments(b))
    for level in (0.1, 0.01, 0.001):
        assert (p < level).mean() < level + 5 * math.sqrt(level / 4000)
    assert (p < 0.1).mean() > 0.05


def stationary(streams: int, first: int = 0) -> list[list[float]]:
    """The p-values of streams of 8 overlapping checks in which nothing changes."""
    found = []
    for seed in range(first, first + streams):
        monitor = Monitor(rows(2000, 1000 + seed), window=600, every=300)
        monitor.update(rows(2700, 5000 + seed))
        assert monitor.checks_made == 8
        found.append([change.p_value for check in monitor.checks for change in check.changes])
    return found


def alarms(streams: list[list[float]], level: float) -> int:
    return sum(min(values) < level for values in streams)


def test_false_alarms_are_as_rare_as_stated():
    """alpha = 20% over 8 checks of 8 measures. Tests at 5% each would raise a false alarm in most
    streams."""
    found = stationary(12)
    assert alarms(found, 0.2 / (8 * 8)) <= binom.isf(1e-3, 12, 0.2)
    assert alarms(found, 0.05) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("first", [100, 200, 300])
def test_false_alarms_of_many_streams(first):
    found = stationary(30, first)
    for alpha in (0.5, 0.2, 0.05):
        assert alarms(found, alpha / (8 * 8)) <= binom.isf(1e-3, 30, alpha)


def test_the_level_of_a_test():
    monitor = Monitor(rows(100, 0), alpha=0.1, horizon=50)
    assert monitor.level == 0.1 / (50 * 8)


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        (
            {"bias": 1.5},
            {
                "log_score": "worse",
                "accuracy": "worse",
                "overconfidence": "worse",
                "priors": "changed",
            },
        ),
        (
            {"scale": 4.0},
            {
                "log_score": "worse",
                "smooth_ece": "worse",
                "overconfidence": "worse",
                "confidence": "changed",
            },
        ),
        ({"spread": 5.0}, {"log_score": "better", "accuracy": "better", "confidence": "changed"}),
    ],
)
def test_drift_is_detected_and_named(drift, expected):
    for seed in range(3):
        monitor = Monitor(rows(5000, seed), window=2000, every=1000)
        assert monitor.update(rows(4000, 100 + seed)) == []
        found = {
            alarm.measure: alarm.direction
            for alarm in monitor.update(rows(2000, 200 + seed, **drift))
        }
        assert expected.items() <= found.items()
    if "scale" in drift:  # the most probable class is the same, and so are the labels
        assert not {"accuracy", "priors"} & found.keys()


def test_words():
    monitor = Monitor(rows(5000, 0), window=2000, every=1000)
    alarms = {alarm.measure: str(alarm) for alarm in monitor.update(rows(2000, 1, bias=1.5))}
    share = r"−?\d+\.\d%"
    moved = (
        rf"Accuracy fell from 78\.2% to 72\.0% \(a change of {share}, 95% interval {share} to"
        rf" {share}\)"
    )
    where = r" in rows 0 to 1,999, against the reference: worse\."
    rare = r" If nothing had changed, this would happen in fewer than 1 of [\d,]+ checks\."
    assert re.fullmatch(moved + where + rare, alarms["accuracy"])
    assert "The class frequencies changed in rows 0 to 1,999" in alarms["priors"]
    assert re.search(r"class \d: \d+\.\d% to \d+\.\d%\.", alarms["priors"])
    text = monitor.report()
    assert "2,000 rows, 1 check of the last 2,000 rows, against a reference of 5,000 rows" in text
    assert "ALARM (worse)" in text
    assert "at most 5%" in text
    assert "No window is full yet" in Monitor(rows(50, 0)).report()


def test_an_alarm_is_raised_again_only_after_it_has_passed():
    monitor = Monitor(rows(5000, 0), window=1000, every=500)
    found = []
    for i, bias in enumerate([0, 0, 2, 2, 2, 2, 0, 0, 0, 2, 2]):
        found.append({alarm.measure for alarm in monitor.update(rows(500, 10 + i, bias=bias))})
    assert [i for i, names in enumerate(found) if "accuracy" in names] == [3, 10]
    assert len([alarm for alarm in monitor.alarms if alarm.measure == "accuracy"]) == 2


def test_checks_do_not_depend_on_blocks():
    stream = rows(2600, 3, bias=0.7)
    found = []
    for size in (41, 1000, 2600):
        monitor = Monitor(rows(2000, 0), window=1000, every=500)
        alarms = [
            a for i in range(0, 2600, size) for a in monitor.update(stream.take(slice(i, i + size)))
        ]
        found.append((list(monitor.checks), alarms))
    assert found[0] == found[1] == found[2]
    assert [check.first_row for check in found[0][0]] == [0, 500, 1000, 1500]


def test_windows_of_blocks():
    monitor = Monitor(rows(2000, 0), window=3, every=1, by="blocks")
    for i, n in enumerate([400, 300, 500, 200]):
        monitor.update(rows(n, 10 + i))
    assert monitor.update([], []) == []
    assert [(check.first_row, check.last_row) for check in monitor.checks] == [
        (0, 1199),
        (400, 1399),
        (700, 1399),
    ]
    assert monitor.window is not None
    assert monitor.window.rows == 700


def test_differences_that_do_not_matter():
    stream = rows(20_000, 1, bias=1.0)
    strict = Monitor(rows(20_000, 0), window=20_000, every=20_000)
    lenient = Monitor(
        rows(20_000, 0), window=20_000, every=20_000, ignore={"accuracy": 0.05, "priors": 0.2}
    )
    assert {"accuracy", "priors"} <= {alarm.measure for alarm in strict.update(stream)}
    found = {alarm.measure for alarm in lenient.update(stream)}
    assert "log_score" in found
    assert not {"accuracy", "priors"} & found
    assert last(lenient)["accuracy"].difference == last(strict)["accuracy"].difference


def test_probability_zero_for_the_true_class():
    y, p = world(2000, 1)
    p[:8], y[:8] = 0.0, 1
    found = {
        alarm.measure: str(alarm)
        for alarm in Monitor(rows(20_000, 0), window=2000, every=2000).update(y, p)
    }
    assert (
        "The share of rows whose true class was given probability 0 rose from 0.0% to 0.4%"
        in found["infinite_rows"]
    )
    assert "log_score" not in found


def test_bad_rows():
    monitor = Monitor(rows(2000, 0), window=500, every=500)
    y, p = world(700, 1)
    p[600] = np.nan
    with pytest.raises(pb.InputError, match="row 600"):
        monitor.update(y, p)
    assert monitor.rows == monitor.checks_made == 0
    dropping = Monitor(pb.Predictions(*world(2000, 0), on_bad_rows="drop"), window=500, every=500)
    p[::10] = np.nan
    assert "bad_rows" in {alarm.measure for alarm in dropping.update(y, p)}
    p[:] = np.nan
    dropping.update(y, p)
    dropping.update(y, p)
    assert [change.measure for change in dropping.checks[-1].changes] == ["bad_rows"]
    assert dropping.checks[-1].changes[0].recent == 1


def test_equal_weights_change_nothing():
    y, p = world(1000, 1)
    plain = Monitor(rows(2000, 0), window=1000, every=1000)
    weighted = Monitor(
        statistics(pb.Predictions(*world(2000, 0), sample_weight=np.full(2000, 3.0))),
        window=1000,
        every=1000,
    )
    plain.update(y, p)
    weighted.update(y, p, sample_weight=np.full(1000, 3.0))
    for a, b in zip(last(plain).values(), last(weighted).values(), strict=True):
        assert (a.recent, a.difference, a.low, a.high) == pytest.approx(
            (b.recent, b.difference, b.low, b.high), abs=1e-9
        )
        assert a.p_value == pytest.approx(b.p_value, rel=1e-5)


def test_a_saved_monitor_continues(tmp_path):
    path = tmp_path / "monitor.npz"
    one, other = (
        Monitor(rows(2000, 0), window=1000, every=500, ignore={"accuracy": 0.01}, history=7)
        for _ in range(2)
    )
    for i in range(6):
        block = rows(700, 10 + i, bias=0.3 * i)
        assert one.update(block) == other.update(block)
        other.save(path)
        other = Monitor.load(path)
        assert (list(other.checks), list(other.alarms), other.level) == (
            list(one.checks),
            list(one.alarms),
            one.level,
        )
    assert len(one.alarms)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(pb.InputError, match="monitor/2"):
        Monitor.load(path)
    with pytest.raises(pb.InputError, match="can be read"):
        Monitor.load(tmp_path / "none.npz")


def test_memory_is_bounded():
    monitor = Monitor(rows(2000, 0), window=1000, every=500, history=5)
    block = rows(500, 1)

    def feed(times: int) -> int:
        for _ in range(times):
            monitor.update(block)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    first, then = feed(8), feed(24)
    tracemalloc.stop()
    assert then - first < 100_000
    assert len(monitor.checks) == 5
    assert monitor.checks_made == 31


def test_the_window_is_a_state():
    monitor = Monitor(rows(2000, 0), window=1000, every=500)
    stream = rows(1700, 1)
    assert monitor.window is None
    monitor.update(stream)
    window = monitor.window
    assert window is not None
    assert window.sums.to_bytes() == statistics(stream.take(slice(500, 1500))).sums.to_bytes()
    assert len(window.finalise().sample) == 1000


def test_many_classes_and_kinds_of_outputs():
    world_of_many = pb.simulate.gaussian_posteriors(3000, 12, seed=0)
    logits = Monitor(
        pb.Predictions(world_of_many.y, np.log(world_of_many.cal), from_logits=True),
        window=600,
        every=600,
    )
    order = np.random.default_rng(0).permutation(len(world_of_many.y))[:600]
    assert logits.update(world_of_many.y[order], np.log(world_of_many.cal[order])) == []
    rare = np.where(world_of_many.y[order] == 0, 3, world_of_many.y[order])
    changed = {
        alarm.measure: alarm.text for alarm in logits.update(rare, np.log(world_of_many.cal[order]))
    }
    assert "class 3: " in changed["priors"] or "class 0: " in changed["priors"]
    pairs = Monitor(
        pb.Predictions.from_confidence([0.9, 0.8, 0.6] * 500, [True, True, False] * 500),
        window=300,
        every=300,
    )
    assert pairs.update([True, True, False] * 100, [0.9, 0.8, 0.6] * 100) == []
    assert "priors" not in last(pairs)
    assert "accuracy" in {alarm.measure for alarm in pairs.update([False] * 300, [0.9] * 300)}


@pytest.mark.parametrize(("y", "p"), [(1, 1.0), (1, 0.5), (0, 0.0), (1, 1 - 2**-53), (1, 5e-324)])
def test_constant_streams_raise_no_alarm(y, p):
    monitor = Monitor(pb.Predictions([y] * 400, [p] * 400), window=200, every=100)
    assert monitor.update([y] * 500, [p] * 500) == []
    assert all(
        change.p_value == 1
        for check in monitor.checks
        for change in check.changes
        if change.measure != "smooth_ece"
    )


def test_history_as_a_frame():
    monitor = Monitor(rows(2000, 0), window=1000, every=500)
    assert len(monitor.to_frame()) == 0
    monitor.update(rows(2000, 1))
    frame = monitor.to_frame()
    assert len(frame) == 3 * 8
    assert list(frame.columns)[:4] == ["check", "first_row", "last_row", "measure"]
    assert not frame["alarm"].any()
    assert ((frame["low"] <= frame["difference"]) & (frame["difference"] <= frame["high"])).all()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"window": 0}, "window"),
        ({"window": 1000.0}, "window"),
        ({"every": 300}, "every"),
        ({"by": "days"}, "by"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1}, "alpha"),
        ({"horizon": 0}, "horizon"),
        ({"history": 0}, "history"),
        ({"ignore": {"f1": 0.1}}, "ignore"),
        ({"ignore": {"accuracy": -0.1}}, "ignore"),
        ({"reference": [1, 2]}, "reference"),
        ({"reference": statistics(classes=2)}, "probs"),
    ],
)
def test_invalid_arguments_raise(options, argument):
    with pytest.raises(pb.InputError) as problem:
        Monitor(**({"reference": rows(20, 0)} | options))
    assert problem.value.argument == argument


def test_rows_of_another_kind_raise():
    monitor = Monitor(rows(100, 0))
    for block in (
        pb.Predictions([0], [[0.2, 0.3, 0.5]]),
        pb.Predictions([0], [0.3], from_logits=True),
    ):
        with pytest.raises(pb.InputError, match="planned for"):
            monitor.update(block)
    assert monitor.rows == 0


def test_rows_with_other_columns_raise_and_add_nothing():
    monitor, same = (
        Monitor(rows(2000, 0), window=500, every=500),
        Monitor(rows(2000, 0), window=500, every=500),
    )
    y, p = world(500, 1)
    for each in (monitor, same):
        each.update(y[:100], p[:100], columns={"day": y[:100]})
    with pytest.raises(pb.InputError, match="same parts"):
        monitor.update(y[100:], p[100:])
    for each in (monitor, same):
        each.update(y[100:], p[100:], columns={"day": y[100:]})
    assert monitor.rows == same.rows == 500
    assert monitor.checks == same.checks


def test_the_example_of_the_document_runs(capsys):
    for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        exec(code, {})
    assert "Accuracy fell" in capsys.readouterr().out
