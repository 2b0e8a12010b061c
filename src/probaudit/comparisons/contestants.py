"""The estimates of each model of a comparison on shared rows, and paired differences between
models."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..audits.estimates import too_few_to_calibrate
from ..calibration import paired, resampling
from ..calibration.errors import calibration_error
from ..calibration.fine_grid import FineGrid
from ..calibration.kernel import kernel_calibration_error
from ..calibration.paired import Draws, ResampledError, Resamples
from ..calibration.smooth import smooth_calibration_error
from ..calibration.views import diagram_grids, event_rows
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss
from ..calibrators.folds import FOLDS, Folds, folds_of
from ..calibrators.outputs import Outputs, shares
from ..choices.distances import Over, Under
from ..choices.lenses import Classwise, Lens, TopLabel, judged_lens
from ..choices.partitions import EqualMass, EqualWidth
from ..choices.scores import Brier, Cost, Log, Score
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows, survey
from ..engines.memory import summary
from ..errors import InputError
from ..estimate import Estimate
from ..scoring import expected_scores as scores
from ..scoring.clusters import ClusteredRows
from ..scoring.entropy import output_entropy, row_entropies
from ..scoring.row_scores import of_true_class, row_hits, row_scores
from ..states import Plan, Summary

WIDTH = EqualWidth(paired.BINS)
# the parts of the ECE above and below the rate, of the top label and of an event
SIDES = (("overconfidence", "underconfidence"), ("risk_too_high", "risk_too_low"))
TOP = "top_label."  # before the names of errors of the most probable class beside those of an event

# no calibrator is tried for a model with more outputs, unless requested
REPAIRED_VALUES = 20_000_000


@dataclass(frozen=True, eq=False)
class Ground:
    """What all models of a comparison share: the good rows with their weights, clusters and folds,
    the resamples, and the costs.

    lens : the event that calibration errors judge.
    sample : the resamples, with the weight and the cluster of each good row.
    folds : the fold of each good row; None if no calibrator is tried (`why_no_repair` says why).
    chosen : whether the caller gave the folds. If so, folds that do not fit the rows are an error.
    """

    lens: Lens
    sample: Resamples
    folds: Folds | None
    cost: Cost | None
    why_no_repair: str = ""
    chosen: bool = False

    @classmethod
    def of(
        cls,
        rows: Predictions,
        *,
        cost: Cost | None,
        cv: Any,
        repair: bool | None,
        resamples: int,
        seed: int,
    ) -> Ground:
        good = survey(rows).good
        weights = (
            np.ones(len(good))
            if rows.sample_weight is None
            else rows.sample_weight[good] / rows.sample_weight[good].max()
        )
        clusters = None if rows.clusters is None else ClusteredRows(rows, good).clusters.number
        if clusters is not None and clusters.max() < 1:
            raise InputError("clusters", "must be two or more for a comparison", 1)
        why, folds = _why_no_repair(rows, repair, chosen=cv is not None), None
        if not why:
            try:
                folds = folds_of(Outputs.of(rows), FOLDS if cv is None else cv, len(rows), seed)
            except InputError as problem:
                if cv is not None:
                    raise
                why = f"not tried: {problem.rule}"
        return cls(
            lens=judged_lens(rows.event_column, rows.n_classes),
            sample=Resamples.draw(weights, clusters, resamples, seed),
            folds=folds,
            cost=cost,
            why_no_repair=why,
            chosen=cv is not None,
        )

    @cached_property
    def share(self) -> np.ndarray:
        return shares(self.sample.weights)

    @property
    def clusters(self) -> np.ndarray | None:
        return self.sample.clusters

    @property
    def of_event(self) -> bool:
        """Whether the probability of a class is judged, not that of the most probable one."""
        return self.lens != TopLabel()

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the parts of the ECE from bins whose output is above and below the rate."""
        return SIDES[self.of_event]


def _why_no_repair(rows: Predictions, requested: bool | None, *, chosen: bool) -> str:
    if requested is False:
        return "not requested"
    if requested is None and rows.probs.size > REPAIRED_VALUES:
        return f"not tried: more than {REPAIRED_VALUES:,} outputs"
    return "" if chosen else too_few_to_calibrate(survey(rows).summary.log.rows)


@dataclass(frozen=True, eq=False)
class Contestant:
    """One model of a comparison.

    row_scores : the scores of each row, by the name of the estimate.
    errors : resampled calibration errors, by name.
    grid : of the judged event. top_grid : of the most probable class, with the Brier score as loss.
    tried : how the calibration loss was estimated, or why it was not.
    """

    estimates: dict[str, Estimate]
    codes: np.ndarray
    row_scores: dict[str, np.ndarray]
    errors: dict[str, ResampledError]
    grid: FineGrid
    top_grid: FineGrid
    summary: Summary
    fingerprint: str
    tried: str


def judge_model(rows: Predictions, ground: Ground) -> Contestant:
    """All estimates of one model."""
    found = survey(rows)
    codes = rows.codes[found.good]
    row_scores = _row_scores(rows, found.good, ground.cost)
    estimates = _score_estimates(rows, found.summary, ground.cost)
    loss, tried = _default_calibration_loss(rows, ground)
    if loss is not None:
        estimates["log_score.calibrated"] = loss.calibrated
        if math.isfinite(loss.raw):  # an infinite loss has no shares
            estimates |= {"calibration_loss": loss.loss, "calibration_loss.relative": loss.relative}
        with np.errstate(divide="ignore"):
            row_scores["log_score.calibrated"] = -np.log(of_true_class(loss.posteriors, codes))
    errors = {}
    for name, (x, draws) in _errors(rows, ground, estimates["brier_score"], row_scores).items():
        errors[name] = ResampledError.of(float(x), *draws)
        if not math.isfinite(x.debiased):  # binned errors already have an interval
            x.low, x.high = errors[name].interval()
        estimates[name] = x
    top_grid = replace(diagram_grids(rows, TopLabel())[0], loss=found.summary.grid.brier)
    return Contestant(
        estimates=estimates,
        codes=codes,
        row_scores=row_scores,
        errors=errors,
        grid=diagram_grids(rows, ground.lens)[0] if ground.of_event else top_grid,
        top_grid=top_grid,
        summary=found.summary,
        fingerprint=hashlib.sha256(found.state.to_bytes()).hexdigest()[:16],
        tried=tried,
    )


def _row_scores(rows: Predictions, good: np.ndarray, cost: Cost | None) -> dict[str, np.ndarray]:
    """The scores of each row, by name."""
    rules: dict[str, Score] = {"log_score": Log(), "brier_score": Brier()}
    rules |= {} if cost is None else {"cost_risk": cost}
    found = {"accuracy": row_hits(rows, good), "entropy": row_entropies(GoodRows.of(rows).probs)}
    return found | row_scores(rows, good, rules)


def _score_estimates(rows: Predictions, found: Summary, cost: Cost | None) -> dict[str, Estimate]:
    clustered = None if rows.clusters is None else ClusteredRows(rows, survey(rows).good)
    estimates = {"accuracy": scores.accuracy(found, clustered)}
    rules: list[tuple[str, Score, Summary]] = [
        ("log_score", Log(), found),
        ("brier_score", Brier(), found),
    ]
    if cost is not None:
        rules.append(("cost_risk", cost, summary(rows, Plan.of(rows, {"costs": cost}))))
    for name, rule, of in rules:
        estimates[name] = scores.estimate_score(of, rule, clustered=clustered)
        estimates[f"{name}.normalized"] = scores.estimate_score(
            of, rule, normalize=True, clustered=clustered
        )
    return estimates | {"entropy": output_entropy(rows)}


def _errors(
    rows: Predictions, ground: Ground, total: Estimate, row_scores: dict[str, np.ndarray]
) -> dict[str, tuple[Estimate, Draws]]:
    """The calibration errors of a model, each with its values in the resamples that all models
    share: those of the judged event, of the most probable class if that is another event, and of
    all classes."""
    sample, view = ground.sample, event_rows(rows, ground.lens).view
    estimates = _event_errors(rows, ground)
    # SmoothECE is the fixed point of its bandwidth
    smoothed = paired.smoothed_errors(view, sample, float(estimates["smooth_ece"]))
    draws = paired.binned_errors(view, sample, ground.sides) | smoothed
    top_label = {"kernel_calibration_error": estimates["kernel_calibration_error"]}
    if ground.of_event:
        top, top_label = event_rows(rows, TopLabel()).view, _top_label_errors(rows)
        drawn = paired.binned_errors(top, sample, SIDES[0])
        drawn |= paired.smoothed_errors(top, sample, paired.KERNEL_WIDTH)
        smoothed = drawn
        estimates |= {f"{TOP}{name}": x for name, x in top_label.items()}
        draws |= {f"{TOP}{name}": drawn[name] for name in top_label}
    kernel = top_label["kernel_calibration_error"]
    words = f"sharpness gap: {total.definition}, less the " + kernel.definition
    gap = Estimate(float(total) - float(kernel), n=total.n, definition=words)
    rest = sample.means(row_scores["brier_score"]) - smoothed["kernel_calibration_error"][0]
    estimates["sharpness_gap"], draws["sharpness_gap"] = gap, (rest, None)
    if rows.n_classes > 2:
        good = GoodRows.of(rows)
        estimates["classwise_ece"] = calibration_error(rows, lens=Classwise(), partition=WIDTH)
        draws["classwise_ece"] = paired.classwise_errors(good.probs, good.labels, sample)
    return {name: (x, draws[name]) for name, x in estimates.items()}


def _event_errors(rows: Predictions, ground: Ground) -> dict[str, Estimate]:
    """The calibration errors of the judged event."""
    error = partial(calibration_error, rows, lens=ground.lens, partition=WIDTH, interval=True)
    above, below = ground.sides
    return {
        "ece": error(),
        "ace": error(partition=EqualMass(paired.BINS)),
        "smooth_ece": smooth_calibration_error(rows, lens=ground.lens, interval=True),
        "kernel_calibration_error": kernel_calibration_error(rows, lens=ground.lens),
        above: error(distance=Over()),
        below: error(distance=Under()),
        "mce": error(worst=True),
        "average_calibration_error": error(unweighted=True),
    }


def _top_label_errors(rows: Predictions) -> dict[str, Estimate]:
    """The calibration errors of the most probable class."""
    error = partial(calibration_error, rows, lens=TopLabel(), interval=True)
    return {
        "ece": error(partition=WIDTH),
        "ace": error(partition=EqualMass(paired.BINS)),
        "kernel_calibration_error": kernel_calibration_error(rows, lens=TopLabel()),
    }


def _default_calibration_loss(
    rows: Predictions, ground: Ground
) -> tuple[CalibrationLoss | None, str]:
    """The calibration loss of the default calibrator, and its definition; or None and the
    reason."""
    if ground.folds is None:
        return None, ground.why_no_repair
    try:
        loss = calibration_loss(rows, cv=ground.folds)
    except InputError as problem:
        if ground.chosen:
            raise
        return None, f"not tried: {problem.rule}"
    return loss, loss.definition


def linear_names(model: Contestant) -> list[str]:
    """The estimates of a model that are means over rows or ratios of means."""
    names = [name for name in model.row_scores if name in model.estimates]
    names += [f"{name}.normalized" for name in model.row_scores]
    names += ["calibration_loss", "calibration_loss.relative"]
    return [name for name in names if name in model.estimates]


def influence(model: Contestant, name: str, ground: Ground) -> np.ndarray:
    """The influence of each row on an estimate that is a mean over rows or a ratio of means.

    A normalised score is the mean score divided by the mean of S(P, y), the score of the class
    frequencies P. P is the base-rate forecast, so its own change with the rows has no
    first-order effect (see `scoring.expected_scores.mean_score`).
    """
    share, scores = ground.share, model.row_scores
    if name in scores:
        return resampling.mean_influence(scores[name], share)
    if name.endswith(".normalized"):
        score = name.removesuffix(".normalized")
        rules: dict[str, Score] = {"log_score": Log(), "brier_score": Brier()}
        rule = ground.cost if score == "cost_risk" and ground.cost is not None else rules[score]
        naive = rule.by_class(rule.naive(model.summary.priors))[model.codes]
        return resampling.ratio_influence(scores[score], naive, share)
    before, after = scores["log_score"], scores["log_score.calibrated"]
    if name == "calibration_loss":
        return resampling.mean_influence(before - after, share)
    return -resampling.ratio_influence(after, before, share)


def difference(
    model: Contestant, base: Contestant, words: str, ground: Ground
) -> dict[str, Estimate]:
    """Each estimate of a model minus that of another, with a paired interval. `words` begin the
    definitions."""
    differences: dict[str, Estimate] = {}
    others = set(linear_names(base))
    for name in linear_names(model):
        if name not in others:
            continue
        mine, theirs = (influence(one, name, ground) for one in (model, base))
        a, b = model.estimates[name], base.estimates[name]
        value = (
            float(np.subtract(float(a), float(b)))
            if math.isfinite(a) or math.isfinite(b)
            else math.nan
        )
        with np.errstate(invalid="ignore"):
            terms = resampling.unit_terms(mine - theirs, ground.share, ground.clusters)
            half = resampling.half_width(terms, resampling.quantile(ground.clusters))
        # equal in every row, and so in every sample
        if value == 0 and np.array_equal(mine, theirs):
            half = 0.0
        half = half if math.isfinite(value) else math.nan
        differences[name] = Estimate(
            value,
            low=value - half,
            high=value + half,
            n=a.n,
            definition=f"{words}: " + a.definition,
        )
    for name, error in model.errors.items():
        value, low, high = error.minus(base.errors[name])
        definition = f"{words}: " + model.estimates[name].definition
        differences[name] = Estimate(
            value, low=low, high=high, n=model.estimates[name].n, definition=definition
        )
    return {name: differences[name] for name in model.estimates if name in differences}


def lower_estimates(models: Sequence[Contestant], ground: Ground) -> dict[str, np.ndarray]:
    """By the name of an estimate: whether that of model i is clearly lower than that of model j,
    [M, M]. Models without the estimate are not compared."""
    linear = dict.fromkeys(name for model in models for name in linear_names(model))
    found = {name: _lower_means(models, name, ground) for name in linear}
    return found | {
        name: paired.pairwise_lower([model.errors[name] for model in models])
        for name in models[0].errors
    }


def _lower_means(models: Sequence[Contestant], name: str, ground: Ground) -> np.ndarray:
    values = np.array([float(model.estimates.get(name, math.nan)) for model in models])
    units = len(ground.share) if ground.clusters is None else int(ground.clusters.max()) + 1
    terms = np.zeros((len(models), units))
    with np.errstate(invalid="ignore"):
        for k, model in enumerate(models):
            if name in model.estimates:
                row = influence(model, name, ground)
                terms[k] = resampling.unit_terms(row, ground.share, ground.clusters)
        return paired.clearly_lower(values, terms, resampling.quantile(ground.clusters))
