"""Perez-Lebel et al. 2023, Section 5.2 and Appendix D: the grouping loss of networks, in
distribution and on corrupted images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..calibration.resampling import draw_counts, percentile
from ..calibration.views import lens_rows
from ..choices.lenses import TopLabel
from ..choices.partitions import EqualWidth
from ..data.predictions import Predictions
from ..diagrams.grouping import GroupingDiagram
from ..estimate import Estimate
from ..grouping.loss import GroupingLoss, grouping_loss
from ..training.corruptions import AMOUNTS
from .grouping_diagrams import GroupingDiagrams, Losses
from .grouping_protocol import PROTOCOL, PublishedTree, difference
from .outcome import Claim, Outcome, Row, mean_estimate
from .printed_values import row_beside
from .trained import Networks, Recipe

BINS, RATIO = 15, 30
CLEAN, MERGED = "in distribution", "merged"
KINDS = tuple(AMOUNTS)
SHIFTED = (MERGED, *KINDS)
# The table of the paper with the same kind of images, and its network that is nearest to ours.
TABLES = {CLEAN: "Table 2d", MERGED: "Table 2b"}
NEAREST = {"LeNet": "AlexNet", "ResNet": "ResNet-18"}
LITTLE = 0.003  # the largest bound that Table 2d prints
BOUND, AFTER, CHANGE = "GL_LB", "GL′_LB", "change"
TREE = PublishedTree(RATIO)
REGIONS = {"stump": "balanced_stump", "k-means": "kmeans"}
RISES = f"{BOUND} rises above that in distribution"
RECALIBRATES = "isotonic regression lowers CL"
STAYS = f"more than half of it stays ({AFTER} − {BOUND} / 2)"
LITTLE_THERE = f"in distribution, {BOUND} is below {LITTLE}"
ONE_IS_MORE = f"one corruption gives more than several merged (mean difference of {BOUND})"
BY_GROUP = "corruptions as regions give a positive bound"
Recipes = Mapping[str, Mapping[str, Any]]  # the fields of `Recipe`, by the name of a network


def images(networks: Networks, recipe: Recipe, name: str, severity: int) -> Predictions:
    """Outputs and features of the test images: in distribution, all with one corruption, or merged.
    Merged, each image has one corruption, drawn at random, which is a column."""
    if name == CLEAN:
        return networks.outputs(recipe)
    if name != MERGED:
        return networks.outputs(recipe, corruption=name, severity=severity)
    each = [networks.outputs(recipe, corruption=kind, severity=severity) for kind in KINDS]
    labels = each[0].codes
    kind = np.random.default_rng(0).integers(0, len(KINDS), len(labels))
    logits, features = (
        np.stack([np.asarray(getattr(one, part)) for one in each])[kind, np.arange(len(labels))]
        for part in ("probs", "features")
    )
    columns = {"corruption": np.array(KINDS)[kind]}
    return Predictions(labels, logits, features=features, from_logits=True, columns=columns)


def top_label_loss(rows: Predictions, resamples: int, regions: Any = TREE) -> GroupingLoss:
    """The estimate of the paper, with that after isotonic regression: 15 bins, regions learned from
    one half of the rows and evaluated on the other."""
    return grouping_loss(
        rows,
        lens=TopLabel(),
        bins=BINS,
        regions=regions,
        split="half",
        recalibrate=True,
        resamples=resamples,
        **PROTOCOL,
    )


def _after(found: GroupingLoss) -> GroupingLoss:
    if found.recalibrated is None:
        raise AssertionError("top_label_loss recalibrates")
    return found.recalibrated


def table_1(networks: Networks, recipes: Recipes, severity: int, resamples: int) -> Outcome:
    """The columns of Table 1 for each network, and the bounds of this library."""
    rows: list[Row] = []
    claims: list[Claim] = []
    shown: list[tuple[str, str, str, Estimate]] = []
    for name, recipe in recipes.items():
        for images_of in (CLEAN, *SHIFTED):
            label = f"{name} {images_of}"
            data = images(networks, Recipe(**recipe), images_of, severity)
            found = top_label_loss(data, resamples)
            ours = grouping_loss(data, lens=TopLabel(), recalibrate=True, resamples=resamples)
            printed = TABLES.get(images_of, ""), NEAREST.get(name, "")
            rows += _columns(label, printed, data, found, ours)
            if images_of == CLEAN:
                clean = found
            else:
                claims += _shift_claims(label, clean, found)
            for panel, one in (("original", found), ("after isotonic regression", _after(found))):
                shown.append((panel, label, "CL", one.calibration_loss))
                shown.append((panel, label, BOUND, one.lower_bound))
    figure = _losses(shown, "loss", "As Figure 7")
    return Outcome(tuple(rows), tuple(claims), {"losses": figure})


def _columns(
    label: str,
    printed: tuple[str, str],
    data: Predictions,
    theirs: GroupingLoss,
    ours: GroupingLoss,
) -> list[Row]:
    """The row of a table. printed : the table of the paper and its network, "" for none."""
    part, nearest = printed
    right = 100 * (np.asarray(data.probs).argmax(axis=1) == data.codes)
    values: dict[str, Estimate] = {
        "CL": theirs.calibration_loss,
        "CL′": _after(theirs).calibration_loss,
        BOUND: theirs.lower_bound,
        AFTER: _after(theirs).lower_bound,
        CHANGE: difference(_after(theirs), theirs),
        "accuracy": mean_estimate(right),
        "our bound": ours.lower_bound,
        "our bound′": _after(ours).lower_bound,
    }
    rows = []
    for column, value in values.items():
        row = row_beside("grouping", part, nearest, column, value)
        source = f"{part}, {nearest}" if np.isfinite(row.printed) else ""
        decimals = 1 if column == "accuracy" else 3
        ends = row.printed, source, row.low, row.high
        rows.append(Row(label, column, row.ours, *ends, decimals=decimals))
    return rows


def _shift_claims(label: str, clean: GroupingLoss, found: GroupingLoss) -> list[Claim]:
    source, after = "Section 5.2", _after(found)
    fall = difference(after, found, "calibration_loss")
    most = difference(after, found, times=0.5)
    return [
        Claim.above(0.0, f"{label}: {RISES}", source, difference(found, clean)),
        Claim.below(0.0, f"{label}: {RECALIBRATES}", source, fall),
        Claim.above(0.0, f"{label}: {STAYS}", source, most),
    ]


def _losses(
    shown: Sequence[tuple[str, str, str, Estimate]], x: str, title: str, caption: str = ""
) -> Losses:
    panel, place, series, values = zip(*shown, strict=True)
    value, low, high = (
        np.array([getattr(one, end) for one in values]) for end in ("value", "low", "high")
    )
    return Losses(panel, place, series, value, low, high, x, title, caption)


def shifts(networks: Networks, recipes: Recipes, severity: int, resamples: int) -> Outcome:
    """Appendix D: little grouping loss in distribution; more with one corruption than merged."""
    claims = []
    for name, recipe in recipes.items():
        found = {
            images_of: top_label_loss(
                images(networks, Recipe(**recipe), images_of, severity), resamples
            )
            for images_of in (CLEAN, *SHIFTED)
        }
        single = float(np.mean([found[kind].lower_bound for kind in KINDS]))
        deviations = np.mean([_deviations(found[kind]) for kind in KINDS], axis=0)
        value = single - float(found[MERGED].lower_bound)
        low, high = percentile(value + deviations - _deviations(found[MERGED]))
        claims += [
            Claim.below(
                LITTLE,
                f"{name}: {LITTLE_THERE}",
                "Appendix D.3",
                found[CLEAN].lower_bound,
            ),
            Claim.above(
                0.0,
                f"{name}: {ONE_IS_MORE}",
                "Appendix D.2",
                Estimate(value, low=low, high=high),
            ),
        ]
    return Outcome(claims=tuple(claims))


def _deviations(found: GroupingLoss) -> np.ndarray:
    """Of the resampled bound from its mean."""
    return np.zeros(1) if found.deviations is None else found.deviations[:, 0]


def grouping_diagrams(
    networks: Networks, recipes: Recipes, corruption: str, severity: int, resamples: int
) -> Outcome:
    """Grouping diagrams of two regions, by a balanced stump and by 2-means, before and after
    isotonic regression (Figures 6 and 15 to 27), and the bounds that these regions give."""
    rows, figures = [], {}
    for name, recipe in recipes.items():
        drawn: dict[str, GroupingDiagram] = {}
        for images_of in (CLEAN, corruption):
            data = images(networks, Recipe(**recipe), images_of, severity)
            for words, regions in REGIONS.items():
                found = top_label_loss(data, resamples, regions)
                for column, when, one in (
                    (BOUND, "original", found),
                    (AFTER, "isotonic", _after(found)),
                ):
                    label, (low, high) = f"{name} {images_of}, {words}", one.lower_bound.interval
                    bound = float(one.lower_bound)
                    rows.append(Row(label, column, bound, low=low, high=high, decimals=4))
                    if images_of == corruption:
                        drawn[f"{words}, {when}"] = GroupingDiagram.of_grouping(one)
        title = f"{name}, {corruption}: as Figures 6 and 16"
        figures[name.lower()] = GroupingDiagrams(drawn, title)
    return Outcome(tuple(rows), figures=figures)


def figure_13(networks: Networks, recipes: Recipes, severity: int, resamples: int) -> Outcome:
    """The corruptions of merged images as groups: the mean difference between the accuracy of a
    group and that of all rows with the same confidence."""
    rows, claims = [], []
    shown: list[tuple[str, str, str, Estimate]] = []
    for name, recipe in recipes.items():
        data = images(networks, Recipe(**recipe), MERGED, severity)
        for kind, value in group_differences(data, resamples).items():
            shown.append(("", kind, name, value))
            rows.append(Row(name, kind, float(value), low=value.low, high=value.high))
        bound = grouping_loss(
            data, lens=TopLabel(), regions=["corruption"], resamples=resamples
        ).lower_bound
        rows.append(Row(name, "bound by corruption", bound, low=bound.low, high=bound.high))
        claims.append(Claim.above(0.0, f"{name}: {BY_GROUP}", "Appendix D.1", bound))
    means = {
        kind: np.mean([value for _, place, _, value in shown if place == kind]) for kind in KINDS
    }
    shown.sort(key=lambda one: -means[one[1]])
    caption = "Above 0, the network is right more often than on all images of the same confidence."
    figure = _losses(shown, "accuracy at equal confidence, group − all", "As Figure 13", caption)
    return Outcome(tuple(rows), tuple(claims), {"groups": figure})


def group_differences(data: Predictions, resamples: int) -> dict[str, Estimate]:
    """By corruption: the mean over rows of correctness minus the accuracy of the bin. Intervals
    resample rows."""
    [shown] = lens_rows(data, TopLabel())
    bins = EqualWidth(BINS).cells(shown.view.outputs)
    names, group = np.unique(np.asarray((data.columns or {})["corruption"]), return_inverse=True)
    counts = np.zeros((BINS, len(names), 2))
    np.add.at(counts, (bins, group, shown.view.labels.astype(int)), 1)
    shares = counts.ravel() / len(bins)
    drawn = draw_counts(len(bins), shares, resamples, seed=0).reshape(-1, *counts.shape)
    ends = map(percentile, _differences(drawn).T)
    return {
        str(name): Estimate(value, low=low, high=high)
        for name, value, (low, high) in zip(names, _differences(counts), ends, strict=True)
    }


def _differences(counts: np.ndarray) -> np.ndarray:
    """From counts [..., bins, groups, wrong or right]."""
    rows, right = counts.sum(axis=-1), counts[..., 1]
    rate = right.sum(axis=-1) / np.maximum(rows.sum(axis=-1), 1)
    total = np.maximum(rows.sum(axis=-2), 1)  # a small group may be absent from a resample
    return np.asarray((right - rows * rate[..., None]).sum(axis=-2) / total)
