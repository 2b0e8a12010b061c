"""Kirchenbauer et al. 2022, Appendix B: the error and its standard deviation by size of the cells
and by number of rows (Figures 7, 8 and 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..calibration.cells import gather_cells, mean_gap
from ..calibration.resampling import draw_units, percentile
from ..calibration.sweeps import stable_run
from ..choices.distances import TVD
from ..choices.lenses import Full, Lens, TopLabel, View
from ..choices.partitions import KDTree, Partition
from ..data.predictions import Predictions
from ..diagrams.picture import Axis, Line, Mark, Panel, Picture, Points
from ..diagrams.sweep import PartitionSweep
from ..engines.good_rows import GoodRows
from ..estimate import Estimate
from ..scoring.intervals import Z95
from ..text import fraction, number
from .outcome import Claim, Outcome, Row
from .printed_values import row_beside
from .stored_diagram import StoredDiagram
from .trained import Networks, Recipe

LENSES: dict[str, Lens] = {"full": Full(), "top-1": TopLabel()}
LIMIT = 0.01  # of the standard deviations, in the text
MIDDLE = 4  # -log2 of the gamma of Appendix B.2
AGAIN = 500  # resamples of resamples, for intervals of standard deviations


def view_error(view: View, partition: Partition) -> float:
    """The error of the paper: total variation, here for any cells."""
    cells = gather_cells(view, partition.cells(view.outputs), np.ones(len(view.labels)))
    return float(mean_gap(cells, TVD()))


def resampled_errors(
    view: View, partition: Partition, size: int, resamples: int, seed: int = 0
) -> np.ndarray:
    """The errors of resamples of `size` rows, drawn with replacement. Each has its own cells, and
    the rows of a resample depend on the seed only."""
    found = np.empty(resamples)
    rng, total = np.random.default_rng(seed), len(view.labels)
    for b in range(resamples):
        rows = np.sort(rng.integers(total, size=size))
        found[b] = view_error(View(view.outputs[rows], view.labels[rows]), partition)
    return found


def granularity_of_network(
    networks: Networks, network: str, rows: int, epochs: int, **choices: Any
) -> Outcome:
    """As `granularity`, for the base model of a network trained here."""
    return granularity(networks.outputs(Recipe(network, "base", 0, rows, epochs)), **choices)


def granularity(
    rows: Predictions,
    name: str,
    finest: int,
    swept: Sequence[int],
    fractions: Sequence[float],
    resamples: int,
) -> Outcome:
    """Figures 7 and 8, gamma from 1/2 to 2^-finest with all rows; and Figure 9, the standard
    deviation for n / N among `fractions`, gamma among 2^-k for k in `swept`."""
    good = GoodRows.of(rows)
    views = {lens: one.view(good.probs, good.labels) for lens, one in LENSES.items()}
    n = len(good.labels)
    powers = range(1, finest + 1)
    whole = {
        (lens, k): resampled_errors(view, KDTree(2.0**-k), n, resamples)
        for lens, view in views.items()
        for k in powers
    }
    drawn = {
        (lens, k, share): whole[lens, k]
        if share == 1
        else resampled_errors(view, KDTree(2.0**-k), round(share * n), resamples)
        for lens, view in views.items()
        for k in swept
        for share in fractions
    }
    values = {key: view_error(views[key[0]], KDTree(2.0 ** -key[1])) for key in whole}
    sweep = _sweep(values, whole)
    numbers = [
        Row(f"{name}, gamma {fraction(2.0**-k)}", column, value, decimals=decimals)
        for k in powers
        for column, value, decimals in (
            ("full ECE", values["full", k], 3),
            ("full ECE, sd", float(whole["full", k].std(ddof=1)), 4),
            ("top-1 ECE", values["top-1", k], 3),
            ("top-1 ECE, sd", float(whole["top-1", k].std(ddof=1)), 4),
            *_cell_sizes(views["full"], k),
        )
    ]
    found = np.array([values["full", k] for k in powers])
    beside = {
        "full ECE, gamma 1/16": values["full", MIDDLE],
        "range over gamma": float(np.ptp(found)),
        "largest sd": max(float(one.std(ddof=1)) for one in drawn.values()),
    }
    printed = [
        row_beside("generalised_ece", "Appendix B.3.4", "ResNet50", column, value)
        for column, value in beside.items()
    ]
    numbers += [
        Row(f"{name}, summary", row.column, row.ours, row.printed, "Appendix B.3.4, other data")
        for row in printed
    ]
    title = f"{name}: full ECE by size of the cells, as Figure 7"
    figures = {
        "sweep": StoredDiagram(replace(sweep.picture(), title=title), sweep.columns()),
        "deviations": _deviations(name, drawn, swept, fractions),
    }
    claims = _claims(name, sweep, drawn, swept, fractions)
    return Outcome(tuple(numbers), tuple(claims), figures, (_note(name, sweep),))


def _sweep(
    values: dict[tuple[str, int], float], whole: dict[tuple[str, int], np.ndarray]
) -> PartitionSweep:
    powers = [k for lens, k in values if lens == "full"]
    value = np.array([values["full", k] for k in powers])
    deviation = np.array([whole["full", k].std(ddof=1) for k in powers])
    names = np.array([fraction(2.0**-k) for k in powers])
    return PartitionSweep(names, value, deviation, stable_run(value, deviation), "gamma")


def _cell_sizes(view: View, k: int) -> list[tuple[str, float, int]]:
    """Rows per cell (Figure 8)."""
    sizes = np.bincount(KDTree(2.0**-k).cells(view.outputs))
    sizes = sizes[sizes > 0]
    found = {"median": np.median(sizes), "fewest": sizes.min(), "most": sizes.max()}
    return [(f"rows per cell, {name}", float(size), 0) for name, size in found.items()]


def _claims(
    name: str,
    sweep: PartitionSweep,
    drawn: dict[tuple[str, int, float], np.ndarray],
    swept: Sequence[int],
    fractions: Sequence[float],
) -> list[Claim]:
    source = "Appendix B.3.4"
    least, most = min(fractions), max(fractions)
    few, many = drawn["full", MIDDLE, least], drawn["full", MIDDLE, most]
    ratio = float(few.std(ddof=1) / many.std(ddof=1))
    wider = math.exp(Z95 * math.sqrt(1 / (2 * len(few)) + 1 / (2 * len(many))))
    largest = max(drawn.values(), key=lambda one: float(one.std(ddof=1)))
    width = Z95 / math.sqrt(2 * len(largest))
    sd = float(largest.std(ddof=1))
    around = slice(MIDDLE - 2, MIDDLE + 1)
    change = float(np.ptp(sweep.value[around]) / sweep.deviation[around].min())
    return [
        Claim.below(
            1.0,
            f"{name}: the full ECE is stable around gamma = 1/16 (range from 1/8 to 1/32, in"
            " standard deviations)",
            "Appendix B.2",
            Estimate(change, low=change / (1 + width), high=change / (1 - width)),
        ),
        Claim.above(
            1.0,
            f"{name}: fewer rows give a larger standard deviation (ratio, n / N = {least:g} to"
            f" {most:g})",
            source,
            Estimate(ratio, low=ratio / wider, high=ratio * wider),
        ),
        Claim.below(
            LIMIT,
            f"{name}: the standard deviation is below {LIMIT} everywhere (largest)",
            source,
            Estimate(sd, low=sd * (1 - width), high=sd * (1 + width)),
        ),
        Claim.above(
            0.0,
            f"{name}: with n / N = {least:g}, the standard deviation of the top-1 ECE varies more"
            " over gamma than that of the full ECE (difference of the ranges)",
            source,
            _more_spread(drawn, swept, least),
        ),
    ]


def _more_spread(
    drawn: dict[tuple[str, int, float], np.ndarray], swept: Sequence[int], share: float
) -> Estimate:
    """The range over gamma of the standard deviation of the top-1 error, less that of the full
    error; its interval resamples the resamples."""

    def spread(lens: str) -> np.ndarray:
        errors = np.array([drawn[lens, k, share] for k in swept])
        counts = np.vstack([np.ones(errors.shape[1]), draw_units(errors.shape[1], AGAIN, 0)])
        total = counts.sum(axis=1)
        mean = errors @ counts.T / total
        variance = (errors**2) @ counts.T / total - mean**2
        return np.asarray(np.ptp(np.sqrt(np.maximum(variance, 0)), axis=0))

    difference = spread("top-1") - spread("full")
    low, high = percentile(difference[1:])
    return Estimate(float(difference[0]), low=low, high=high)


def _deviations(
    name: str,
    drawn: dict[tuple[str, int, float], np.ndarray],
    swept: Sequence[int],
    fractions: Sequence[float],
) -> StoredDiagram:
    """The standard deviation against n / N, a line for each gamma."""
    share = np.array(fractions)
    panels = []
    columns: dict[str, list[Any]] = {"lens": [], "gamma": [], "n / N": [], "sd": []}
    top = 1.08 * max(float(one.std(ddof=1)) for one in drawn.values())
    for lens in LENSES:
        marks: list[Mark] = []
        for s, k in enumerate(swept):
            sd = np.array([drawn[lens, k, one].std(ddof=1) for one in fractions])
            shown = f"gamma {fraction(2.0**-k)}"
            style: dict[str, Any] = {
                "role": f"series {s}",
                "detail": {"gamma": [shown] * len(sd), "n / N": share, "sd": sd},
            }
            marks += [Line(share, sd, name=shown, **style), Points(share, sd, **style)]
            columns["lens"] += [lens] * len(sd)
            columns["gamma"] += [fraction(2.0**-k)] * len(sd)
            columns["n / N"] += list(fractions)
            columns["sd"] += sd.tolist()
        panels.append(
            Panel(
                tuple(marks),
                Axis("n / N", 0, 1.05),
                Axis("standard deviation", 0.0, top),
                title=f"{lens} ECE",
            )
        )
    words = f"{name}: standard deviation by number of rows, as Figure 9"
    caption = "Of resamples of n rows, drawn with replacement; each has its own cells."
    picture = Picture(tuple(panels), words, f"{words}.", caption, columns=2)
    return StoredDiagram(
        picture,
        {
            title: np.array(column, object if title in ("lens", "gamma") else float)
            for title, column in columns.items()
        },
    )


def _note(name: str, sweep: PartitionSweep) -> str:
    run = np.flatnonzero(sweep.stable)
    ends = f"{sweep.name[run[0]]} to {sweep.name[run[-1]]}" if len(run) > 1 else sweep.name[run[0]]
    return (
        f"{name}: the full ECE rises from {number(sweep.value[0], 3)} at gamma {sweep.name[0]} to"
        f" {number(sweep.value[-1], 3)} at gamma {sweep.name[-1]}; stable range: gamma {ends}."
    )
