"""Typical mistakes of users of the Python API, with the message that each gets: the rule, the value
found, and the way out. Mistakes with files and on the command line are in their own table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import probaudit as pb
from probaudit import calibrators

RNG = np.random.default_rng(0)
N = 60
P = RNG.random(N)  # of the second of two classes
Y = (RNG.random(N) < P).astype(int)
P3 = RNG.dirichlet([1, 1, 1], N)
Y3 = np.r_[0, 1, 2, RNG.integers(0, 3, N - 3)]
FRAME = pd.DataFrame({"y": Y, "p": P, "topic": np.where(np.arange(N) % 2, "law", "art")})
SHUFFLED = FRAME.sample(frac=1, random_state=0)


class Mistake(NamedTuple):
    """A call, the words of its message, and the words of the way out."""

    call: Callable[[], Any]
    rule: str
    way_out: str


def with_first(value: float) -> np.ndarray:
    return np.r_[value, P[1:]]


KEYWORDS = {
    "a third argument": Mistake(
        lambda: pb.compare(P, 1 - P, Y),
        "compare() takes `models` and `y_true` without a name (found: 3 arguments)",
        "Name the others: costs,",
    ),
    "label of a display": Mistake(
        lambda: pb.diagrams.ReliabilityDisplay.from_predictions(Y, P, label="net"),
        "no argument `label` (found: 'net')",
        "Use `name`.",
    ),
    "several axes": Mistake(
        lambda: pb.diagrams.reliability_diagram(Y, P).plot(ax=np.array([None, None])),
        "`ax`: must be axes of matplotlib (found: ndarray)",
        "such as `axs[0, 0]`",
    ),
    "a common name": Mistake(
        lambda: pb.expected_calibration_error(Y, P),
        "has no attribute 'expected_calibration_error'",
        "Use `calibration_error`.",
    ),
    "a name of a part": Mistake(
        lambda: pb.TemperatureScaling(),
        "module 'probaudit' has no attribute 'TemperatureScaling'",
        "Use `calibrators.TemperatureScaling`.",
    ),
    "a calibrator in short": Mistake(
        lambda: calibrators.Platt(),
        "module 'probaudit.calibrators' has no attribute 'Platt'",
        "Use `PlattScaling`.",
    ),
    "too many arguments": Mistake(
        lambda: pb.resampled_t_test(P, 0.5, 20),
        "without a name (found: 3 arguments)",
        "It takes no others.",
    ),
    "a misspelled name": Mistake(
        lambda: pb.calibraton_error(Y, P),
        "has no attribute 'calibraton_error'",
        "Use `calibration_error`.",
    ),
    "n_bins": Mistake(
        lambda: pb.calibration_error(Y, P, n_bins=10),
        "calibration_error() has no argument `n_bins` (found: 10)",
        "Use `partition=EqualWidth(10)`.",
    ),
    "bins of a diagram": Mistake(
        lambda: pb.diagrams.reliability_diagram(Y, P, n_bins=10),
        "reliability_diagram() has no argument `n_bins` (found: 10)",
        "Use `bins`.",
    ),
    "display": Mistake(
        lambda: pb.diagrams.ReliabilityDisplay.from_predictions(Y, P, strategy="uniform"),
        "reliability_diagram() has no argument `strategy` (found: 'uniform')",
        "Use `bins`.",
    ),
    "axes of a diagram": Mistake(
        lambda: pb.diagrams.reliability_diagram(Y, P, ax=None),
        "reliability_diagram() has no argument `ax`",
        "Pass it to the result: reliability_diagram(...).plot(ax=ax).",
    ),
    "normalise": Mistake(
        lambda: pb.log_score(Y, P, normalise=True),
        "log_score() has no argument `normalise` (found: True)",
        "Use `normalize`.",
    ),
    "norm": Mistake(
        lambda: pb.calibration_error(Y, P, norm="l2"),
        "calibration_error() has no argument `norm` (found: 'l2')",
        "Use `distance`.",
    ),
    "weights": Mistake(
        lambda: pb.log_score(Y, P, weights=np.ones(N)),
        "log_score() has no argument `weights`",
        "Use `sample_weight`.",
    ),
    "labels": Mistake(
        lambda: pb.log_score(Y, P, labels=[0, 1]),
        "log_score() has no argument `labels`",
        "Use `classes`.",
    ),
    "pos_label": Mistake(
        lambda: pb.validation_table(Y, P, pos_label=1),
        "validation_table() has no argument `pos_label` (found: 1)",
        "Use `event`.",
    ),
    "groups of an audit": Mistake(
        lambda: pb.audit(Y, P, groups=FRAME[["topic"]]),
        "audit() has no argument `groups`",
        "Use `columns`.",
    ),
    "y_prob": Mistake(
        lambda: pb.log_score(Y, y_prob=P),
        "log_score() has no argument `y_prob`",
        "Use `y_proba`.",
    ),
    "methods": Mistake(
        lambda: pb.select_calibrator(Y, P, methods=["platt"]),
        "select_calibrator() has no argument `methods`",
        "Use `candidates`.",
    ),
    "threshold": Mistake(
        lambda: pb.decision_curve(Y, P, threshold=0.5),
        "decision_curve() has no argument `threshold` (found: 0.5)",
        "Use `thresholds`.",
    ),
    "n_jobs": Mistake(
        lambda: pb.log_score(Y, P, n_jobs=2),
        "log_score() has no argument `n_jobs` (found: 2)",
        "Use `threads`.",
    ),
    "random_state": Mistake(
        lambda: pb.calibration_test(Y, P, random_state=0),
        "calibration_test() has no argument `random_state` (found: 0)",
        "Use `seed`.",
    ),
    "misspelt": Mistake(
        lambda: pb.audit(Y, P, feature=P[:, None]),
        "audit() has no argument `feature`",
        "Use `features`.",
    ),
    "unlike any other": Mistake(
        lambda: pb.brier_score(Y, P, xyz=1),
        "brier_score() has no argument `xyz` (found: 1)",
        "Arguments are y_true, y_proba, normalize, priors",
    ),
    "columns of a frame": Mistake(
        lambda: pb.audit(FRAME, label="y", probs="p"),
        "audit() has no argument `label` (found: 'y')",
        "in `read`: audit(read(data, label='y', probs='p')).",
    ),
    "a keyword of read": Mistake(
        lambda: pb.read(FRAME, label="y", probs="p", sample_weight="topic"),
        "read() has no argument `sample_weight` (found: 'topic')",
        "Use `weight`.",
    ),
}
CHOICES = {
    "one metric": Mistake(
        lambda: pb.compare({"a": P, "b": P**2}, Y).to_markdown(metrics="ece"),
        "`metrics`: must list some of",
        "(found: 'ece'). Pass `metrics=['ece']`.",
    ),
    "one candidate": Mistake(
        lambda: pb.select_calibrator(Y, P, candidates="isotonic"),
        "(found: 'isotonic')",
        "Pass `candidates=['isotonic']`.",
    ),
    "a misspelled candidate": Mistake(
        lambda: pb.select_calibrator(Y, P, candidates=["isotonik"]),
        "(found: 'isotonik')",
        "The nearest name is 'isotonic'.",
    ),
    "normalize as text": Mistake(
        lambda: pb.log_score(Y, P, normalize="yes"),
        "`normalize`: must be True or False (found: 'yes')",
        "Pass `normalize=True`, or leave it out.",
    ),
    "one model": Mistake(
        lambda: pb.compare({"a": P}, Y),
        "at least two models to outputs (found: 1 model)",
        "Pass outputs by name",
    ),
    "a number as partition": Mistake(
        lambda: pb.calibration_error(Y, P, partition=10),
        "`partition`: must be a partition (found: 10)",
        "Pass EqualWidth(10).",
    ),
    "a name as partition": Mistake(
        lambda: pb.calibration_error(Y, P, partition="equal_mass"),
        "`partition`: must be a partition (found: 'equal_mass')",
        "Pass EqualMass().",
    ),
    "a name as lens": Mistake(
        lambda: pb.calibration_error(Y, P, lens="classwise"),
        "`lens`: must be a lens (found: 'classwise')",
        "Pass Classwise().",
    ),
    "a class as lens": Mistake(
        lambda: pb.calibration_test(Y, P, lens=pb.TopLabel),
        "`lens`: must be a lens (found: TopLabel)",
        "Pass TopLabel().",
    ),
    "a name as calibrator": Mistake(
        lambda: pb.calibration_loss(Y, P, calibrator="platt_scaling"),
        "`calibrator`: must be a calibrator (found: 'platt_scaling')",
        "Pass PlattScaling().",
    ),
    "the name of a column": Mistake(
        lambda: pb.calibration_error(Y, P, partition=pb.Column("topic")),
        "Column needs one value per row (found: 'topic')",
        'such as Column(frame["topic"])',
    ),
    "bins as text": Mistake(
        lambda: pb.EqualWidth("10"),
        "`bins`: must be a whole number (found: '10')",
        "Pass a number without quotes or decimals, such as `bins=15`.",
    ),
    "an unknown distance": Mistake(
        lambda: pb.calibration_error(Y, P, distance="l3"),
        "(found: 'l3')",
        'Pass `distance="l1"`.',
    ),
    "an unknown score": Mistake(
        lambda: pb.calibration_loss(Y, P, score="logloss"),
        "`score`: must be one of log, brier or a Score (found: 'logloss')",
        "The nearest name is 'log'.",
    ),
    "three classes as two": Mistake(
        lambda: pb.calibration_error(Y3, P3, lens=pb.Binary()),
        "Binary requires two classes (found: 3)",
        "Use TopLabel() or OneVsRest(index).",
    ),
    "no event": Mistake(
        lambda: pb.decision_curve(Y3, P3),
        "`event`: must name a class if there are more than two (found: 3 classes)",
        "Pass `event`",
    ),
    "costs of errors alone": Mistake(
        lambda: pb.bayes_risk(Y, P, costs=[1, 5]),
        "`costs`: must be a matrix [classes, decisions] (found: has shape (2,))",
        "Pass a row for each true class, such as [[0, 1], [5, 0]]",
    ),
    "models as a list": Mistake(
        lambda: pb.compare([P, P], Y),
        "`models`: must map the names of at least two models to outputs (found: list)",
        'by name, then the labels: {"a": p, "b": q}, y_true',
    ),
    "a column without its name": Mistake(
        lambda: pb.audit(Y, P, columns=FRAME["topic"]),
        "`columns`: must be a frame, or a mapping of names to arrays (found: Series)",
        '{"topic": values}',
    ),
    "one feature": Mistake(
        lambda: pb.grouping_loss(Y, P, P),
        f"`features`: must be [rows, features] with {N} rows (found: has shape ({N},))",
        "as `features[:, None]`",
    ),
    "weights of a test": Mistake(
        lambda: pb.hosmer_lemeshow_test(Y, P, sample_weight=np.ones(N)),
        "`sample_weight`: the Hosmer-Lemeshow test needs rows of equal weight",
        "use `calibration_test`, which takes them.",
    ),
}
ROWS = {
    "labels and Predictions": Mistake(
        lambda: pb.log_score(Y, pb.Predictions(Y, P)),
        "must be outputs, as Predictions have labels of their own (found: Predictions(60 rows,",
        "Pass the Predictions alone.",
    ),
    "classes in rows": Mistake(
        lambda: pb.audit(Y3, P3.T),
        "`y_true`: needs one label per row of `y_proba` (3) (found: 60)",
        "Pass `y_proba.T`.",
    ),
    "a missing label": Mistake(
        lambda: pb.log_score(np.r_[np.nan, Y[1:]], P),
        "(row 0: label is missing)",
        'Leave these rows out with `on_bad_rows="drop"`.',
    ),
    "a column for a calibrator of three classes": Mistake(
        lambda: calibrators.TemperatureScaling().fit(P3, Y3).predict_proba(P),
        "`P`: must have a column for each of the 3 classes of the fit (found: has shape (60,))",
        "Reshape your data to [n, K].",
    ),
    "swapped": Mistake(
        lambda: pb.log_score(P, Y),
        f"`y_true`: must be one of the classes 0, 1 (row 0: label {float(P[0])!r})",
        "check that labels and outputs are not swapped",
    ),
    "swapped, three classes": Mistake(
        lambda: pb.audit(P3, Y3),
        f"`y_true`: must be one label per row (found: has shape ({N}, 3))",
        "check that labels and outputs are not swapped",
    ),
    "swapped in fit": Mistake(
        lambda: calibrators.PlattScaling().fit(Y, P),
        "`y`: must hold classes (found: Unknown label type: continuous)",
        "Outputs come first: `fit(P, y)`.",
    ),
    "swapped in fit, three classes": Mistake(
        lambda: calibrators.PlattScaling().fit(Y3, P3),
        f"`y`: must be one label per row (found: has shape ({N}, 3))",
        "check that labels and outputs are not swapped",
    ),
    "one-hot in fit": Mistake(
        lambda: calibrators.PlattScaling().fit(P3, np.eye(3)[Y3]),
        f"`y`: must be one label per row (found: has shape ({N}, 3))",
        "For one-hot labels, pass `y.argmax(axis=1)`.",
    ),
    "splits in place of a ratio": Mistake(
        lambda: pb.resampled_t_test(P, P),
        "`test_to_train`: must be a positive, finite number (found: ndarray)",
        "Divide the number of test rows by that of training rows.",
    ),
    "rows with labels in a calibrator": Mistake(
        lambda: calibrators.PlattScaling().fit(P, Y).predict_proba(pb.Predictions(Y, P)),
        "`P`: must be outputs without labels (found: Predictions)",
        "Pass `rows.probs`.",
    ),
    "one-hot": Mistake(
        lambda: pb.log_score(np.eye(3)[Y3], P3),
        f"`y_true`: must be one label per row (found: has shape ({N}, 3))",
        "For one-hot labels, pass `y_true.argmax(axis=1)`.",
    ),
    "several labels": Mistake(
        lambda: pb.log_score(np.ones((N, 3), int), P3),
        f"`y_true`: must be one label per row (found: has shape ({N}, 3))",
        "use `multilabel_table`",
    ),
    "labels from 1": Mistake(
        lambda: pb.log_score(Y3 + 1, P3),
        "`y_true`: must be one of the classes 0, 1, 2 (row 2: label 3)",
        "Name the class of each column with `classes=[1, 2, 3]`.",
    ),
    "labels -1 and 1": Mistake(
        lambda: pb.log_score(2 * Y - 1, P),
        f"`y_true`: must be one of the classes 0, 1 (row {np.argmin(Y)}: label -1)",
        "`classes=[-1, 1]`",
    ),
    "text without classes": Mistake(
        lambda: pb.log_score(np.where(Y, "yes", "no"), P),
        "`y_true`: labels must be column numbers if classes are not given",
        "Pass `classes`, the class of each column in order; a single column is that of the second.",
    ),
    "another index": Mistake(
        lambda: pb.log_score(FRAME.y, SHUFFLED.p),
        "`y_proba`: must have the same pandas index as `y_true`",
        "Align it with `.loc[y_true.index]`, or pass `.to_numpy()`",
    ),
    "weights with another index": Mistake(
        lambda: pb.log_score(FRAME.y, FRAME.p, sample_weight=SHUFFLED.p),
        "`sample_weight`: must have the same pandas index as `y_true`",
        ".loc[y_true.index]",
    ),
    "groups with another index": Mistake(
        lambda: pb.calibration_error(FRAME.y, FRAME.p, partition=pb.Column(SHUFFLED.topic)),
        "`partition`: must have the same pandas index as `y_true`",
        ".loc[y_true.index]",
    ),
    "outputs of fit with another index": Mistake(
        lambda: calibrators.PlattScaling().fit(SHUFFLED.p, FRAME.y),
        "`y`: must have the same pandas index as `P`",
        ".loc[P.index]",
    ),
    "percentages": Mistake(
        lambda: pb.log_score(Y, 100 * P),
        "`y_proba`: a probability must lie between 0 and 1 (row 0: 63.6961687)",
        "Divide percentages by 100.",
    ),
    "logits": Mistake(
        lambda: pb.log_score(Y3, np.log(P3)),
        "`y_proba`: a probability must lie between 0 and 1 (row 0: -",
        "Declare logits with `from_logits=True`.",
    ),
    "a gap": Mistake(
        lambda: pb.log_score(Y, with_first(np.nan)),
        "`y_proba`: a probability must lie between 0 and 1 (row 0: nan)",
        'leave these rows out with `on_bad_rows="drop"`',
    ),
    "rows that do not sum to 1": Mistake(
        lambda: pb.log_score(Y3, 0.9 * P3),
        "`y_proba`: a row must sum to 1 within 1e-05 (row 0: sums to 0.9)",
        "raise `tolerance`",
    ),
    "other lengths": Mistake(
        lambda: pb.log_score(Y[:-1], P),
        f"`y_true`: needs one label per row of `y_proba` ({N}) (found: {N - 1})",
        "Pass both for the same rows.",
    ),
    "a frame": Mistake(
        lambda: pb.audit(FRAME),
        "`y_true`: must be labels or Predictions (found: DataFrame)",
        "Load files and frames with `read(...)` first.",
    ),
    "a frame and names": Mistake(
        lambda: pb.audit(FRAME, "p"),
        "`y_true`: must be labels or Predictions (found: DataFrame)",
        "Load files and frames with `read(...)` first.",
    ),
    "a column that is not there": Mistake(
        lambda: pb.read(FRAME, label="Y", probs="p"),
        "`label`: must be one of the columns y, p, topic (found: there is no column 'Y')",
        "The nearest name is 'y'.",
    ),
    "a regressor as scorer's model": Mistake(
        lambda: pb.as_scorer(pb.log_score)(LinearRegression().fit(P3, Y), P3, Y),
        "`estimator`: must be a classifier with `predict_proba` (found: LinearRegression)",
        "Pass a fitted classifier",
    ),
    "a name that an audit lacks": Mistake(
        lambda: pb.audit(Y, P, repair=False)["ECE"],
        "an audit has no number 'ECE'",
        "did you mean ece?",
    ),
    "a usual name that an audit lacks": Mistake(
        lambda: pb.audit(Y, P, repair=False)["log_loss"],
        "an audit has no number 'log_loss'",
        "use log_score",
    ),
}


IN_PYTHON = KEYWORDS | CHOICES | ROWS


def message_of(mistake: Mistake) -> str:
    with pytest.raises((pb.InputError, TypeError, KeyError, AttributeError)) as caught:
        mistake.call()
    return str(caught.value)


def test_there_are_enough():
    assert len(IN_PYTHON) >= 60


@pytest.mark.parametrize("mistake", IN_PYTHON.values(), ids=IN_PYTHON)
def test_mistakes_are_named(mistake):
    message = message_of(mistake)
    assert mistake.rule in message
    value = re.search(r"\((found|row \d+): .+\)|'\w+'|has no argument", message)
    assert value, "the message must say what was found"
    assert mistake.way_out in message
    assert message.index(mistake.rule) < message.index(mistake.way_out)


@pytest.mark.parametrize("value", [-1e-9, 1 + 1e-9])
def test_rounding_errors_are_tolerated(value):
    nearest = with_first(round(value))
    assert pb.brier_score(Y, with_first(value)) == pytest.approx(pb.brier_score(Y, nearest))


def test_tables_take_slices():
    regions = pb.grouping_loss(Y, P, np.c_[P, P], lens=pb.Binary(), region_ratio=5).regions
    assert [region.number for region in regions[:3]] == regions.number[:3].tolist()
    assert regions[:3][1] == regions[1]
