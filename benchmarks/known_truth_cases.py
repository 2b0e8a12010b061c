"""Cases of the known-truth benchmark: which estimator is evaluated in which world.

Covers every estimator with an interval, every test, and the findings of an audit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from scipy.special import xlogy

import probaudit as pb
from known_truth_worlds import REJECT, Draw, Truth, population, reference_rows, worlds
from probaudit import Binary, Classwise, Cost, EqualMass, Full, Groups, KDTree, TopK

Z95 = 1.959963984540054
# The truth of a calibration loss: number of training samples, and outputs of fresh rows.
FITS, FRESH_VALUES = 60, 400_000
CHOICE_VALUES = 50_000  # outputs of fresh rows on which a selected calibrator is evaluated
LEVEL = 0.05

Kind = Literal["interval", "bound", "test", "rate"]
Alarm = Literal["none", "above", "either"]
CALIBRATION, GROUPING = frozenset({"calibration"}), frozenset({"grouping"})


@dataclass(frozen=True)
class Outcome:
    """Result of one replication: an estimate with its interval, a p-value, or whether an audit
    reported something.

    truth : the truth of this replication, if it depends on the rows (as does the gain of the
        calibrator selected on them).
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    reported: float = math.nan
    truth: float = math.nan

    @classmethod
    def of(cls, estimate: Any) -> Outcome:
        return cls(float(estimate), float(estimate.low), float(estimate.high))


Call = Callable[[Draw], Outcome]
TruthOf = str | Callable[[str, int], Truth] | None


@dataclass(frozen=True)
class Item:
    """One line of the table.

    kind : "interval" (should contain the truth), "bound" (its interval should start below the
        truth), "test" (a p-value), or "rate" (how often something is reported).
    truth : the name of a population value, or a function of world and n. For a rate: a value that
        must exceed 1 for the report to be correct.
    alarm : "above" if an interval above 0 is an alarm, "either" if an interval on either side of 0
        is one, or "none".
    about : what a test or report is about. An alarm is false in worlds where nothing of that kind
        is wrong (`wrong_in`).
    """

    kind: Kind
    truth: TruthOf = None
    alarm: Alarm = "none"
    about: frozenset[str] = CALIBRATION


@dataclass(frozen=True)
class Family:
    """Estimators evaluated together. `run` returns an outcome or an exception for each item."""

    name: str
    title: str
    words: str
    items: Mapping[str, Item]
    run: Callable[[Draw], Mapping[str, Outcome | Exception]]


@dataclass(frozen=True)
class Case:
    """A family in a world with n rows, run for a share of the requested replications."""

    family: str
    world: str
    n: int
    share: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.family} / {self.world} / {self.n}"


def each(calls: Mapping[str, Call]) -> Callable[[Draw], dict[str, Outcome | Exception]]:
    """Run each call; a call that fails does not stop the others."""

    def run(draw: Draw) -> dict[str, Outcome | Exception]:
        outcomes: dict[str, Outcome | Exception] = {}
        for name, call in calls.items():
            try:
                outcomes[name] = call(draw)
            except Exception as problem:
                outcomes[name] = problem
        return outcomes

    return run


def _together(
    names: Sequence[str], call: Callable[[Draw], Mapping[str, Outcome]]
) -> Callable[[Draw], dict[str, Any]]:
    """Run one call that returns several items."""

    def run(draw: Draw) -> dict[str, Any]:
        try:
            outcomes = call(draw)
        except Exception as problem:
            return dict.fromkeys(names, problem)
        absent = KeyError("missing from the result")
        return {name: outcomes.get(name, absent) for name in names}

    return run


def _family(name: str, title: str, words: str, items: Mapping[str, tuple[Item, Call]]) -> Family:
    calls = {key: call for key, (_, call) in items.items()}
    return Family(name, title, words, {key: item for key, (item, _) in items.items()}, each(calls))


def _interval(truth: TruthOf, alarm: Alarm = "above") -> Item:
    return Item("interval", truth, alarm)


def _score_interval(truth: TruthOf) -> Item:
    return Item("interval", truth)


# Scores.


def _score(function: Callable[..., Any], **choices: Any) -> Call:
    return lambda draw: Outcome.of(function(draw.y, draw.p, **choices))


def _risk(reject: float | None, **choices: Any) -> Call:
    def call(draw: Draw) -> Outcome:
        return Outcome.of(
            pb.bayes_risk(draw.y, draw.p, Cost.zero_one(draw.p.shape[1], reject=reject), **choices)
        )

    return call


def _scores() -> Family:
    items: dict[str, tuple[Item, Call]] = {}
    for key, label, call in (
        ("log", "log_score", partial(_score, pb.log_score)),
        ("brier", "brier_score", partial(_score, pb.brier_score)),
        ("0-1", "bayes_risk, 0-1 costs", partial(_risk, None)),
        ("reject", f"bayes_risk, reject {REJECT:g}", partial(_risk, REJECT)),
    ):
        items[label] = _score_interval(key), call()
        items[f"{label}, normalised"] = _score_interval(f"{key} normalised"), call(normalize=True)
    words = (
        "Means over rows. Normalised: divided by the score of the base-rate forecast, or by the"
        " risk of the best constant decision."
    )
    return _family("scores", "Scores", words, items)


# Calibration errors.


RESAMPLED: dict[str, Any] = {"interval": True, "resamples": 199}


def _error(**choices: Any) -> Call:
    return lambda draw: Outcome.of(pb.calibration_error(draw.y, draw.p, **RESAMPLED, **choices))


def _rms(**choices: Any) -> Call:
    return lambda draw: Outcome.of(pb.rms_calibration_error(draw.y, draw.p, **RESAMPLED, **choices))


def _errors() -> Family:
    items = {
        "ECE": (_interval("ece"), _error()),
        "ACE": (_interval("ace"), _error(partition=EqualMass(15))),
        "ECE, debiased": (_interval("ece"), _error(debias=True)),
        "ACE, debiased": (_interval("ace"), _error(partition=EqualMass(15), debias=True)),
        "squared error, debiased": (
            _interval("squared"),
            _error(partition=EqualMass(15), distance="squared", debias=True),
        ),
        "RMS error": (_interval("rms"), _rms()),
    }
    words = (
        "Top label, 15 bins. The truth is the population error in the same bins, not the error"
        " without bins."
    )
    return _family("binned errors", "Binned calibration errors", words, items)


AMONG_TWO = TopK(2) | Groups([[2], [0, 1]]) | Binary()


def _class_errors() -> Family:
    items = {
        "classwise ECE": (_interval("classwise"), _error(lens=Classwise())),
        "classwise RMS error": (_interval("classwise rms"), _rms(lens=Classwise())),
        "top-2 ECE": (_interval("top 2"), _error(lens=AMONG_TWO)),
    }
    words = (
        "Classwise: the mean over classes. Top-2: the event that the true class is among the two"
        " most probable. 15 bins."
    )
    return _family("class errors", "Classwise and top-2 errors", words, items)


def _kernel(score: str) -> Call:
    return lambda draw: Outcome.of(
        pb.kernel_calibration_error(draw.y, draw.p, score=score, interval="percentile")
    )


def _smooth_run(draw: Draw) -> dict[str, Outcome | Exception]:
    calls: dict[str, Call] = {
        "SmoothECE": lambda d: Outcome.of(pb.smooth_calibration_error(d.y, d.p, interval=True)),
        "kernel error, Brier": _kernel("brier"),
        "kernel error, log": _kernel("log"),
    }
    outcomes = each(calls)(draw)
    return outcomes | {"kernel error, Brier, smoothed truth": outcomes["kernel error, Brier"]}


def _smooth_errors() -> Family:
    items = {
        "SmoothECE": _interval("smooth"),
        "kernel error, Brier": _interval("kernel brier"),
        "kernel error, Brier, smoothed truth": _score_interval("kernel brier limit"),
        "kernel error, log": _interval("kernel log"),
    }
    words = (
        "Top label. The truth of a kernel error is the mean divergence of the true frequency from"
        " the confidence, without smoothing. For the Brier score, another row has as its truth the"
        " limit of the kernel estimate at its bandwidth of 0.05."
    )
    return Family("smooth errors", "Errors without bins", words, items, _smooth_run)


def _line(draw: Draw) -> dict[str, Outcome]:
    line = pb.calibration_line(draw.y, draw.p)
    parts = {
        "calibration slope": (line.slope, line.slope_error),
        "calibration intercept": (line.intercept, line.intercept_error),
    }
    return {
        name: Outcome(v, v - Z95 * error, v + Z95 * error) for name, (v, error) in parts.items()
    }


def _lines() -> Family:
    items = {
        "calibration slope": _score_interval("slope"),
        "calibration intercept": _score_interval("intercept"),
    }
    words = (
        "Cox's logistic recalibration of the second class. Intervals are the estimate plus and"
        " minus 1.96 standard errors."
    )
    return Family(
        "calibration line", "Calibration line", words, items, _together(list(items), _line)
    )


# Calibration loss.


@cache
def fitted_loss(world: str, n: int) -> dict[str, Truth]:
    """Gain of the default calibrator on fresh rows, fitted to 4/5 of n rows as in five folds.

    The mean over FITS training samples. Gains use the true probabilities of the fresh rows.
    """
    from probaudit.calibrators import DirectionPreserving

    fresh = fresh_rows(world, FRESH_VALUES)
    before, gains, rows = _expected(fresh.p, fresh.truth), [], np.zeros(2)
    for number in range(FITS):
        train = worlds()[world].sample(n * 4 // 5, 10**6 + number)
        try:
            model = DirectionPreserving(classes=list(range(train.p.shape[1]))).fit(train.p, train.y)
        except pb.InputError:  # one class only
            continue
        gain = before - _expected(model.predict_proba(fresh.p), fresh.truth)
        gains.append(gain.mean(axis=0))
        rows = gain.std(axis=0) / math.sqrt(len(gain))
    raw, values = before.mean(axis=0), np.array(gains)
    mean, error = (
        values.mean(axis=0),
        np.hypot(values.std(axis=0, ddof=1) / math.sqrt(len(values)), rows),
    )
    names = ("log", "brier")
    truths = {
        name: Truth(float(m), float(e)) for name, m, e in zip(names, mean, error, strict=True)
    }
    return truths | {"relative": Truth(float(mean[0] / raw[0]), float(error[0] / raw[0]))}


def fresh_rows(world: str, values: int) -> Draw:
    classes = worlds()[world].sample(2, 0).p.shape[1]
    return reference_rows(world, values // classes)


def _expected(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Expected log loss and Brier score of each row, [n, 2]."""
    brier = (p**2).sum(axis=1) - 2 * (p * truth).sum(axis=1) + 1
    return np.column_stack([-xlogy(truth, p).sum(axis=1), brier])


def _fitted(key: str) -> Callable[[str, int], Truth]:
    return lambda world, n: fitted_loss(world, n)[key]


def _lost(draw: Draw) -> dict[str, Outcome]:
    log, brier = (pb.calibration_loss(draw.y, draw.p, score=score) for score in ("log", "brier"))
    return {
        "calibration_loss, log": Outcome.of(log.loss),
        "calibration_loss, log, relative": Outcome.of(log.relative),
        "calibration_loss, Brier": Outcome.of(brier.loss),
    }


def _losses() -> Family:
    items = {
        "calibration_loss, log": _interval(_fitted("log")),
        "calibration_loss, log, relative": _interval(_fitted("relative")),
        "calibration_loss, Brier": _interval(_fitted("brier")),
    }
    words = (
        "Five folds, default calibrator. The truth is the gain of that calibrator on fresh rows"
        " when fitted to 4/5 of n rows. It is negative where there is nothing to repair."
    )
    return Family(
        "calibration loss", "Calibration loss", words, items, _together(list(items), _lost)
    )


CANDIDATES = ("identity", "temperature", "bias_corrected_temperature", "vector")


def _selected(draw: Draw) -> dict[str, Outcome]:
    choice = pb.select_calibrator(draw.y, draw.p, candidates=list(CANDIDATES))
    fresh = fresh_rows(draw.world, CHOICE_VALUES)
    after = _expected(choice.calibrator.predict_proba(fresh.p), fresh.truth)[:, 0].mean()
    truth = float(1 - after / _expected(fresh.p, fresh.truth)[:, 0].mean())
    chosen = Outcome(reported=float(choice.chosen != "identity"))
    gain = Outcome(float(choice.gain), choice.gain.low, choice.gain.high, truth=truth)
    return {"select_calibrator, gain": gain, "a calibrator is chosen": chosen}


def _selection() -> Family:
    items = {
        "select_calibrator, gain": Item("interval", None, "above"),
        "a calibrator is chosen": Item("rate"),
    }
    words = (
        f"{len(CANDIDATES)} candidates, five folds. The truth is the gain of the selected"
        " calibrator, fitted to all n rows, on fresh rows, as a share of the log loss. It differs"
        " between replications."
    )
    return Family(
        "selection", "Selecting a calibrator", words, items, _together(list(items), _selected)
    )


# Grouping loss.


def _grouping(part: str = "lower_bound", **choices: Any) -> Call:
    return lambda draw: Outcome.of(
        getattr(pb.grouping_loss(draw.y, draw.p, draw.features, **choices), part)
    )


def _groupings() -> Family:
    items = {
        "grouping_loss, Brier": (
            Item("bound", "grouping brier", "above"),
            _grouping(lens=Binary()),
        ),
        "grouping_loss, log": (
            Item("bound", "grouping log", "above"),
            _grouping(lens=Binary(), score="log"),
        ),
    }
    words = (
        "Binary lens, regions from trees on the features. The estimate is a lower bound: on average"
        " it is below the truth, and its interval should start below the truth in at least 97.5% of"
        " runs."
    )
    return _family("grouping", "Grouping loss of one event", words, items)


def _known_groups(draw: Draw) -> Outcome:
    loss = pb.grouping_loss(draw.y, draw.p, lens=Binary(), regions=pb.Column(draw.group))
    return Outcome.of(loss.lower_bound)


def _group_regions() -> Family:
    items = {"grouping_loss, given groups": (_interval("grouping known groups"), _known_groups)}
    words = (
        "Three given groups replace the learned regions. The loss that they explain is known"
        " exactly, so the interval is two-sided."
    )
    return _family("given groups", "Grouping loss of given groups", words, items)


def _class_groupings() -> Family:
    items = {
        "grouping_loss, Classwise, Brier": (
            Item("bound", "joint divergence", "above"),
            _grouping(lens=Classwise()),
        ),
        "grouping_loss, Classwise, log": (
            Item("bound", "joint log divergence", "above"),
            _grouping(lens=Classwise(), score="log"),
        ),
        "grouping_loss, Full, Brier": (
            Item("bound", "joint divergence", "above"),
            _grouping(lens=Full()),
        ),
    }
    words = (
        "Classwise: summed over classes. Full: for the whole vector. Both are lower bounds of the"
        " joint grouping loss."
    )
    return _family("class grouping", "Grouping loss of all classes", words, items)


# Comparisons.

DIFFERENCES = {
    "accuracy": "difference accuracy",
    "log_score": "difference log",
    "log_score.normalized": "difference log normalised",
    "brier_score": "difference brier",
    "ece": "difference ece",
    "ace": "difference ace",
    "smooth_ece": "difference smooth",
    "kernel_calibration_error": "difference kernel brier",
    "sharpness_gap": "difference sharpness gap",
}


def _compared(draw: Draw, **choices: Any) -> dict[str, Outcome]:
    models = {"first": draw.p, "second": draw.other}
    differences = pb.compare(models, draw.y, repair=False, **choices).differences["second"]
    return {f"compare, {name}": Outcome.of(value) for name, value in differences.items()}


def _comparisons() -> Family:
    items = {f"compare, {name}": _interval(truth, "either") for name, truth in DIFFERENCES.items()}
    words = (
        "`compare`: differences between two models on the same rows, second minus first. The logits"
        " of the second model are multiplied by 1.7; in the Gaussian world the second model is the"
        " calibrated one."
    )
    return Family(
        "comparison",
        "Differences between two models",
        words,
        items,
        _together(list(items), _compared),
    )


def _divergence(score: str) -> Call:
    return lambda draw: Outcome.of(pb.score_divergence(draw.truth, draw.p, score=score))


def _divergences() -> Family:
    items = {
        "score_divergence, log": (_interval("joint log divergence"), _divergence("log")),
        "score_divergence, Brier": (_interval("joint divergence"), _divergence("brier")),
    }
    words = (
        "Expected divergence of the outputs from reference posteriors, here the true probabilities."
    )
    return _family("divergence", "Divergence from reference posteriors", words, items)


# Dependent rows.


def _clustered() -> Family:
    def with_clusters(function: Callable[..., Any], **choices: Any) -> Call:
        return lambda draw: Outcome.of(function(draw.y, draw.p, clusters=draw.clusters, **choices))

    def loss(draw: Draw) -> Outcome:
        return Outcome.of(pb.calibration_loss(draw.y, draw.p, clusters=draw.clusters).loss)

    def difference(draw: Draw) -> Outcome:
        return _compared(draw, clusters=draw.clusters)["compare, log_score"]

    def test(draw: Draw) -> Outcome:
        return Outcome(p_value=pb.calibration_test(draw.y, draw.p, clusters=draw.clusters).p_value)

    zero_one = Cost.zero_one(2)
    items: dict[str, tuple[Item, Call]] = {
        "log_score, clusters": (_score_interval("log"), with_clusters(pb.log_score)),
        "log_score, normalised, clusters": (
            _score_interval("log normalised"),
            with_clusters(pb.log_score, normalize=True),
        ),
        "brier_score, clusters": (_score_interval("brier"), with_clusters(pb.brier_score)),
        "bayes_risk, 0-1 costs, clusters": (
            _score_interval("0-1"),
            with_clusters(pb.bayes_risk, costs=zero_one),
        ),
        "log_score, clusters ignored": (_score_interval("log"), _score(pb.log_score)),
        "ECE, clusters": (_interval("ece"), with_clusters(pb.calibration_error, **RESAMPLED)),
        "ACE, clusters": (
            _interval("ace"),
            with_clusters(pb.calibration_error, partition=EqualMass(15), **RESAMPLED),
        ),
        "ECE, clusters ignored": (_interval("ece"), _error()),
        "SmoothECE, clusters": (
            _interval("smooth"),
            with_clusters(pb.smooth_calibration_error, interval=True),
        ),
        "kernel error, Brier, clusters": (
            _interval("kernel brier"),
            with_clusters(pb.kernel_calibration_error, interval="percentile"),
        ),
        "calibration_loss, clusters": (_interval(_fitted("log")), loss),
        "compare, log_score, clusters": (_interval("difference log", "either"), difference),
        "calibration_test, clusters": (Item("test"), test),
        "calibration_test, clusters ignored": (Item("test"), _p_value(pb.calibration_test)),
    }
    words = (
        "100 clusters of 20 rows, with `clusters=`. For contrast, lines marked `clusters ignored`"
        " treat the rows as independent."
    )
    return _family("clusters", "Dependent rows", words, items)


# Tests.


def _p_value(function: Callable[..., Any], **choices: Any) -> Call:
    return lambda draw: Outcome(p_value=function(draw.y, draw.p, **choices).p_value)


def _tests(name: str, title: str, calls: Mapping[str, Call]) -> Family:
    words = f"How often p ≤ {LEVEL:g}: false alarms in calibrated worlds, power in the others."
    return _family(name, title, words, {key: (Item("test"), call) for key, call in calls.items()})


def _binary_tests() -> Family:
    calls = {
        "calibration_test, TopLabel": _p_value(pb.calibration_test),
        "calibration_test, Binary": _p_value(pb.calibration_test, lens=Binary()),
        "spiegelhalter_test": _p_value(pb.spiegelhalter_test),
        "hosmer_lemeshow_test": _p_value(pb.hosmer_lemeshow_test),
    }
    return _tests("binary tests", "Tests, two classes", calls)


def _class_tests() -> Family:
    calls = {
        "calibration_test, TopLabel, K > 2": _p_value(pb.calibration_test),
        "calibration_test, Classwise": _p_value(
            pb.calibration_test, lens=Classwise(), resamples=199
        ),
        "calibration_test, top 2": _p_value(pb.calibration_test, lens=AMONG_TWO),
        "calibration_test, Full, k-d tree": _p_value(
            pb.calibration_test, lens=Full(), partition=KDTree(2**-4), distance="tvd", resamples=199
        ),
        "kernel_calibration_test": _p_value(pb.kernel_calibration_test),
    }
    return _tests("class tests", "Tests, several classes", calls)


# Audits.

EITHER = CALIBRATION | GROUPING
FINDINGS: dict[str, tuple[str, Item]] = {
    "audit: any warning": ("", Item("rate", about=EITHER)),
    "audit: miscalibrated (headline test)": ("against_chance", Item("rate")),
    "audit: miscalibrated class": ("miscalibrated_class", Item("rate")),
    "audit: miscalibrated group": ("miscalibrated_group", Item("rate")),
    "audit: hidden groups": ("hidden_groups", Item("rate", about=GROUPING)),
    "audit: too sure to reject": ("rejecting_all_is_better", Item("rate", "reject normalised")),
    "audit: recalibration advised": ("miscalibration_costs", Item("rate")),
}


def _audited(draw: Draw) -> dict[str, Outcome]:
    columns = None if draw.group is None else {"group": draw.group}
    audit = pb.audit(draw.y, draw.p, features=draw.features, columns=columns)
    serious = {finding.rule for finding in audit.findings if finding.level in ("bad", "warning")}
    rates = {
        name: rule in serious if rule else bool(serious) for name, (rule, _) in FINDINGS.items()
    }
    rates["audit: any group labelled"] = any(group.verdict for group in audit.groups)
    rates["audit: any region labelled"] = audit.budget is not None and bool(
        audit.budget.misjudged(1)
    )
    errors = {error.name: Outcome.of(error.estimate) for error in audit.errors}
    return {name: Outcome(reported=float(value)) for name, value in rates.items()} | {
        "audit: accuracy": Outcome.of(audit["accuracy"]),
        "audit: reject risk, normalised": Outcome.of(audit["reject_risk.normalized"]),
        "audit: ECE": errors.get("ece", Outcome()),
        "audit: classwise ECE": errors.get("classwise_ece", Outcome()),
    }


def _audits() -> Family:
    items = {name: item for name, (_, item) in FINDINGS.items()} | {
        "audit: any group labelled": Item("rate"),
        "audit: any region labelled": Item("rate", about=EITHER),
        "audit: accuracy": _score_interval("accuracy"),
        "audit: reject risk, normalised": _score_interval("reject normalised"),
        "audit: ECE": _interval("ece"),
        "audit: classwise ECE": _interval("classwise"),
    }
    words = (
        "`audit`, where the world has them with ten groups of equal size and three uninformative"
        " features. Rates count warnings, which are false alarms in calibrated worlds."
    )
    return Family("audit", "Findings of an audit", words, items, _together(list(items), _audited))


@cache
def families() -> dict[str, Family]:
    every = (
        _scores(),
        _errors(),
        _class_errors(),
        _smooth_errors(),
        _lines(),
        _losses(),
        _selection(),
        _groupings(),
        _group_regions(),
        _class_groupings(),
        _comparisons(),
        _divergences(),
        _clustered(),
        _binary_tests(),
        _class_tests(),
        _audits(),
    )
    return {family.name: family for family in every}


ALL = (300, 1_000, 5_000)


def _at(family: str, names: Sequence[str], sizes: Sequence[int], share: float = 1.0) -> list[Case]:
    return [Case(family, name, n, share) for name in names for n in sizes]


def wrong_in(world: str) -> frozenset[str]:
    """What is wrong in a world: miscalibration, hidden groups, or nothing."""
    if any(fnmatchcase(world, pattern) for pattern in ("*logits x*", "Gaussian mc*")):
        return CALIBRATION
    hidden = ("hidden direction", "linked scores", "three known groups", "joint, K = 3")
    return GROUPING if world in hidden else frozenset()


def _scaled(*classes: int) -> list[str]:
    kinds = ("calibrated", "logits x 1.15", "logits x 1.7")
    return [f"{kind}, K = {k}" for k in classes for kind in kinds]


@cache
def cases() -> tuple[Case, ...]:
    """All cases. Their shares make 1,000 replications take about an hour on two idle cores."""
    gaussians = [f"Gaussian {kind}" for kind in ("cal", "mcs", "mcp", "mcps")]
    every = [
        *_at(
            "scores",
            ["calibrated, K = 2", "calibrated, K = 10", "logits x 1.7, K = 2", "rare positives"],
            ALL,
        ),
        *_at(
            "scores",
            ["calibrated, K = 3", "calibrated, K = 100", "constant, K = 2", *gaussians],
            [1_000],
        ),
        *_at("binned errors", _scaled(2, 10), [300, 1_000], 0.3),
        *_at("binned errors", _scaled(2, 10), [5_000], 0.3),
        *_at(
            "binned errors",
            ["calibrated, K = 100", "constant, K = 2", "Gaussian mcs", "Gaussian mcps"],
            [1_000],
            0.3,
        ),
        *_at("class errors", _scaled(10), [300, 1_000], 0.2),
        *_at("class errors", _scaled(10), [5_000], 0.2),
        *_at("class errors", _scaled(3), [1_000], 0.2),
        *_at("smooth errors", _scaled(2), [1_000], 0.2),
        *_at("smooth errors", _scaled(10), [1_000], 0.1),
        *_at("smooth errors", gaussians, [1_000], 0.1),
        *_at("smooth errors", _scaled(2), [300, 5_000], 0.1),
        *_at(
            "calibration line",
            ["calibrated, K = 2", "logits x 1.7, K = 2", "Gaussian mcp"],
            [300, 1_000],
        ),
        *_at("calibration loss", _scaled(2), [300, 1_000], 0.5),
        *_at("calibration loss", _scaled(10), [1_000], 0.5),
        *_at("calibration loss", ["calibrated, K = 100"], [1_000], 0.2),
        *_at("calibration loss", ["constant, K = 100"], [1_000], 0.05),
        *_at("calibration loss", ["rare positives", "Gaussian mcps"], [1_000], 0.5),
        *_at("calibration loss", ["calibrated, K = 2", "logits x 1.7, K = 2"], [5_000], 0.2),
        *_at("selection", ["calibrated, K = 3", "logits x 1.7, K = 3"], [300, 1_000], 0.2),
        *_at("selection", ["calibrated, K = 100"], [1_000], 0.02),
        *_at(
            "grouping",
            ["hidden direction", "linked scores", "no hidden groups"],
            [1_000, 5_000],
            0.2,
        ),
        *_at("given groups", ["three known groups"], [1_000, 5_000], 0.5),
        *_at("class grouping", ["calibrated, K = 10"], [2_000], 0.05),
        *_at("class grouping", ["joint, K = 3", "calibrated, K = 3"], [2_000], 0.1),
        *_at("comparison", ["calibrated, K = 3"], ALL, 0.2),
        *_at("comparison", ["Gaussian mcps"], [1_000], 0.2),
        *_at("divergence", ["logits x 1.15, K = 3", "logits x 1.7, K = 3"], [300, 1_000]),
        *_at("clusters", ["clustered", "clustered, logits x 1.7"], [2_000], 0.1),
        *_at("binary tests", _scaled(2), [300, 1_000]),
        *_at("binary tests", _scaled(2), [5_000], 0.3),
        *_at("binary tests", ["rare positives"], [1_000]),
        *_at("class tests", _scaled(10), [300, 1_000], 0.2),
        *_at("audit", _scaled(2), [1_000], 0.1),
        *_at("audit", _scaled(10), [1_000], 0.1),
        *_at("audit", ["rare positives"], [1_000], 0.2),
        *_at("audit", ["no hidden groups", "hidden direction"], [5_000], 0.1),
    ]
    return tuple(every)


def truth_of(case: Case, item: Item) -> Truth | None:
    """The truth of an item in a world; None if there is none or if it differs by replication."""
    if item.truth is None:
        return None
    return (
        item.truth(case.world, case.n)
        if callable(item.truth)
        else population(case.world).get(item.truth)
    )
