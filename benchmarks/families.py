"""Speed of isotonic, beta and BBQ calibration (fit and apply).

Relative to scikit-learn, and to betacal and netcal if installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from probaudit.calibrators import (
    BBQ,
    BetaCalibration,
    GaussianProcessCalibration,
    IsotonicCalibration,
)
from timing import best, line
from worlds import rows


def ours(calibrator: Any, p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return calibrator.fit(p, y).predict_proba(p)


def one_vs_rest(
    curve: Callable[[np.ndarray, np.ndarray], np.ndarray], p: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """One-vs-rest calibration by curves of single events; for two classes, only the second."""
    if p.shape[1] == 2:
        return curve(p[:, 1], y == 1)
    q = np.column_stack([curve(p[:, k], y == k) for k in range(p.shape[1])])
    return q / q.sum(axis=1, keepdims=True)


def isotonic(p: np.ndarray, hit: np.ndarray) -> np.ndarray:
    return IsotonicRegression(out_of_bounds="clip").fit(p, hit).predict(p)


def beta(p: np.ndarray, hit: np.ndarray) -> np.ndarray:
    import betacal

    return betacal.BetaCalibration().fit(p[:, None], hit.astype(int)).predict(p)


def netcal(name: str, p: np.ndarray, y: np.ndarray) -> np.ndarray:
    import netcal.binning

    with contextlib.redirect_stderr(io.StringIO()):  # hides its progress bar
        return getattr(netcal.binning, name)().fit_transform(p if p.shape[1] > 2 else p[:, 1], y)


def has(name: str) -> bool:
    with contextlib.suppress(ImportError):
        return importlib.util.find_spec(name) is not None
    return False


def run() -> None:
    warnings.filterwarnings("ignore")
    for shape in ((50_000, 10), (200_000, 2)):
        y, _, p = rows(*shape, np.float64)
        title = f"{shape[0]:,} x {shape[1]}"
        times = best(
            {
                "isotonic": lambda p=p, y=y: ours(IsotonicCalibration(finite=False), p, y),
                "scikit-learn": lambda p=p, y=y: one_vs_rest(isotonic, p, y),
            },
            seconds=3,
        )
        line(
            f"{title}: scikit-learn's isotonic loop / isotonic",
            times["scikit-learn"] / times["isotonic"],
            "goal >= 1",
        )
        if has("betacal"):
            times = best(
                {
                    "beta": lambda p=p, y=y: ours(BetaCalibration(), p, y),
                    "betacal": lambda p=p, y=y: one_vs_rest(beta, p, y),
                },
                seconds=3,
            )
            line(f"{title}: betacal / beta", times["betacal"] / times["beta"], "goal >= 1")
        else:
            print("beta calibration is not compared: betacal is not installed")
        if has("netcal") and has("torch"):
            for name, calibrator in (
                ("BBQ", BBQ(weighting="bic", equal="width")),
                ("IsotonicRegression", IsotonicCalibration(finite=False)),
            ):
                times = best(
                    {
                        "ours": lambda p=p, y=y, calibrator=calibrator: ours(calibrator, p, y),
                        "netcal": lambda p=p, y=y, name=name: netcal(name, p, y),
                    },
                    seconds=1,
                    at_least=1,
                )
                line(
                    f"{title}: netcal's {name} / ours", times["netcal"] / times["ours"], "goal >= 1"
                )
        else:
            print("BBQ is not compared: netcal or torch is not installed")
            times = best({"bbq": lambda p=p, y=y: ours(BBQ(), p, y)}, seconds=1)
            line(f"{title}: BBQ, seconds", times["bbq"])

    y, _, p = rows(10_000, 10, np.float64)
    times = best({"gp": lambda: ours(GaussianProcessCalibration(), p, y)}, seconds=1, at_least=1)
    line("10,000 x 10: Gaussian process, seconds", times["gp"], "goal <= 10")
