"""Group calibration against its base calibrator on real features.

Repeats Table 1 of Yang et al. 2023 for a small CNN on Fashion-MNIST:

    python benchmarks/group_calibration_study.py FOLDER

FOLDER holds fashion_cnn_val.npz and fashion_cnn_test.npz. Groups are learned once, on the
validation rows. Each of 100 random splits of the test rows then uses 10% for calibration and 90%
for evaluation.

The splits share rows, so they are not independent. The p-values, which the paper reports too,
therefore overstate the evidence.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

import probaudit as pb
from probaudit.calibrators import EnsembleTemperature, GroupCalibration, TemperatureScaling
from probaudit.calibrators.base import Calibrator

SPLITS, SHARE = 100, 0.1


def measures(y: np.ndarray, probs: np.ndarray) -> tuple[float, float]:
    """Log loss and top-label ECE."""
    return float(pb.log_score(y, probs)), float(pb.calibration_error(y, probs))


def study(folder: Path) -> dict[str, np.ndarray]:
    """Log loss and ECE of each method, [splits, 2]."""
    rows = {name: np.load(folder / f"fashion_cnn_{name}.npz") for name in ("val", "test")}
    (z, y, x), (tz, ty, tx) = (
        [rows[name][key] for key in ("logits", "labels", "features")] for name in ("val", "test")
    )
    singles: dict[str, Calibrator] = {
        "TS": TemperatureScaling(from_logits=True),
        "ETS": EnsembleTemperature(from_logits=True),
    }
    grouped = {
        f"GC+{name}": GroupCalibration(base, from_logits=True).learn_groups(z, y, features=x)
        for name, base in singles.items()
    }
    measured: dict[str, list[tuple[float, float]]] = {
        name: [] for name in ("none", *singles, *grouped)
    }
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(ty))
        fit, test = np.split(order, [int(SHARE * len(ty))])
        measured["none"].append(
            measures(ty[test], pb.Predictions(ty[test], tz[test], from_logits=True).probabilities())
        )
        for name, single in singles.items():
            measured[name].append(
                measures(ty[test], single.fit(tz[fit], ty[fit]).predict_proba(tz[test]))
            )
        for name, model in grouped.items():
            model.fit_calibrators(tz[fit], ty[fit], features=tx[fit])
            measured[name].append(
                measures(ty[test], model.predict_proba(tz[test], features=tx[test]))
            )
    print(f"GC+TS, last split: {grouped['GC+TS'].fit_report_.status}")
    return {name: np.array(values) for name, values in measured.items()}


def table(measured: dict[str, np.ndarray]) -> None:
    print(f"{'':8}{'log loss':>12}{'ECE':>10}")
    for name, values in measured.items():
        print(f"{name:8}{values[:, 0].mean():12.5f}{values[:, 1].mean():10.5f}")
    for base in ("TS", "ETS"):
        for k, measure in enumerate(("log loss", "ECE")):
            group, single = measured[f"GC+{base}"][:, k], measured[base][:, k]
            change, test = group.mean() / single.mean() - 1, ttest_rel(group, single)
            print(
                f"GC+{base} against {base}, {measure}: {100 * change:+.2f}%, t ="
                f" {test.statistic:.1f}, p = {test.pvalue:.1g}"
            )


if __name__ == "__main__":
    table(study(Path(sys.argv[1])))
