"""Yang et al. 2023, Tables 1 and 2: group calibration beside methods that keep the most probable
class, and beside methods that do not."""

from __future__ import annotations

import math
from typing import Any

from ..calibrators.base import Calibrator
from ..calibrators.beta import BetaCalibration
from ..calibrators.binning import BBQ, HistogramBinning
from ..calibrators.dirichlet import DirichletCalibration
from ..calibrators.gaussian_process import GaussianProcessCalibration
from ..calibrators.identity import Identity
from ..calibrators.isotonic import IRM
from ..calibrators.repeated_splits import RepeatedSplits
from ..calibrators.temperature import EnsembleTemperature, TemperatureScaling
from ..data.predictions import Predictions
from .group_calibration_protocol import METRICS, Sets, split_difference, with_groups
from .outcome import Claim, Outcome, Row
from .printed_values import printed_values
from .trained import Networks

RESAMPLED = "resampled"  # our variant: a resample of the rows for each partition
BASES: dict[str, Calibrator] = {"TS": TemperatureScaling(), "ETS": EnsembleTemperature()}
OTHERS: dict[str, Calibrator] = {
    "Hist.B": HistogramBinning(),
    "Beta": BetaCalibration(),
    "BBQ": BBQ(),
    "DirODIR": DirichletCalibration(),
    "GPC": GaussianProcessCalibration(),
    "IRM(NAP)": IRM(strict=False),
}
CHANGE = "ECE change, %"
PAIRED_P, CORRECTED_P = "p, paired", "p, corrected"
LOWER_ECE = {base: f"GC+{base} has a lower ECE than {base} (x 1,000)" for base in BASES}
LOWER_LOSS = {base: f"GC+{base} has a lower log loss than {base} (x 1,000)" for base in BASES}
RESAMPLING_HELPS = "resampled GC+TS has a lower log loss than GC+TS (x 1,000)"
BEST_OF_ALL = "GC+ETS has a lower ECE than the best other method (x 1,000)"
COSTS_ACCURACY = "the best other method lowers the accuracy (x 100)"


def trained_table(
    networks: Networks,
    table: int,
    name: str,
    beside: str,
    recipe: list[Any],
    splits: int,
    rows: int,
    partitions: int,
) -> Outcome:
    """A table for a network trained here. See `_table`, and `Sets` for rows and partitions."""
    sets = Sets.trained(networks, recipe, rows, partitions)
    return _table(table, sets, name, beside, splits, math.nan)


def file_table(
    validation: Predictions,
    test: Predictions,
    table: int,
    name: str,
    beside: str,
    tolerance: float | None,
    splits: int,
    rows: int,
    partitions: int,
) -> Outcome:
    """A table for a network whose outputs are in the data folder.

    tolerance : of the printed ECE, if it is the network of the paper.
    """
    sets = Sets.given(validation, test, rows, partitions)
    limit = math.nan if tolerance is None else tolerance
    return _table(table, sets, name, beside, splits, limit)


def _table(
    table: int, sets: Sets, name: str, beside: str, splits: int, tolerance: float
) -> Outcome:
    """beside : the network of the paper whose printed numbers are shown; "" for none."""
    run = _first if table == 1 else _second
    found, claims, extra = run(sets, name, splits)
    printed = printed_values("group_calibration")
    rows = []
    for method in found.methods:
        for metric in METRICS:
            is_ece = metric == "ECE"
            key = (f"Table {table}", f"{beside}, {method}", metric)
            rows.append(
                Row(
                    f"{name}, {method}",
                    metric,
                    float(found.of(method, metric).mean()),
                    printed.get(key, math.nan),
                    f"Table {table}, {beside}" if beside and is_ece else "",
                    tolerance=tolerance if is_ece else math.nan,
                    decimals=4,
                )
            )
        rows += extra.get(method, [])
    return Outcome(tuple(rows), tuple(claims))


Extra = dict[str, list[Row]]  # by method


def _first(sets: Sets, name: str, splits: int) -> tuple[RepeatedSplits, list[Claim], Extra]:
    """Table 1: methods that keep the most probable class."""
    methods: dict[str, Any] = {"Uncal": Identity(), **BASES, "IRM(AP)": IRM(epsilon=1e-3)}
    for words, resample in (("", False), (f" {RESAMPLED}", True)):
        model = sets.learned(resample=resample)
        for base, calibrator in BASES.items():
            methods[f"GC+{base}{words}"] = with_groups(model, calibrator)
    found = sets.splits(methods, splits)
    claims = []
    for metric, statements in (("ECE", LOWER_ECE), ("log loss", LOWER_LOSS)):
        for base, statement in statements.items():
            change = split_difference(found, f"GC+{base}", base, metric, 1000)
            claims.append(Claim.below(0.0, f"{name}: {statement}", "Table 1", change))
    helps = split_difference(found, f"GC+TS {RESAMPLED}", "GC+TS", "log loss", 1000)
    claims.append(Claim.below(0.0, f"{name}: {RESAMPLING_HELPS}", "here", helps))
    extra: Extra = {}
    for method in methods:
        if method.startswith("GC+"):
            base = method.removeprefix("GC+").split()[0]
            test = found.difference(method, "ECE", base)
            share = 100 * test.value / float(found.of(base, "ECE").mean())
            extra[method] = [
                Row(f"{name}, {method}", CHANGE, share, decimals=1),
                Row(f"{name}, {method}", PAIRED_P, test.naive_p),
                Row(f"{name}, {method}", CORRECTED_P, test.p),
            ]
    return found, claims, extra


def _second(sets: Sets, name: str, splits: int) -> tuple[RepeatedSplits, list[Claim], Extra]:
    """Table 2: methods that may change the most probable class. The best of them has the lowest
    mean ECE."""
    methods: dict[str, Any] = {"Uncal": Identity(), **OTHERS}
    methods["GC+ETS"] = with_groups(sets.learned(resample=False), BASES["ETS"])
    found = sets.splits(methods, splits)
    best = min(OTHERS, key=lambda method: float(found.of(method, "ECE").mean()))
    lower = split_difference(found, "GC+ETS", best, "ECE", 1000)
    worse = split_difference(found, best, "Uncal", "accuracy", 100)
    claims = [
        Claim.below(0.0, f"{name}: {BEST_OF_ALL}", f"Table 2, {best}", lower),
        Claim.below(0.0, f"{name}: {COSTS_ACCURACY}", f"Table 2, {best}", worse),
    ]
    return found, claims, {}
