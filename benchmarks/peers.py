"""The same quantities from other packages: agreement, CPU time and memory.

`make bench-peers` installs the packages of benchmarks/peers.txt into an environment of their own,
runs this script with one thread for each library, and writes docs/peers-measured.md. Data come from
`pb.simulate`. Each computation runs in a process of its own, forked after all imports: once to warm
up, then ROUNDS times. The fastest CPU time counts, and the growth of the peak of resident memory in
the first run.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import platform
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np

import probaudit as pb
from peers_page import COMPARED, written

ROUNDS, ROWS = 3, 20_000
PAGE = Path(__file__).parents[1] / "docs" / "peers-measured.md"
TWO = pb.simulate.gaussian_posteriors(ROWS, 2, seed=0)
TEN = pb.simulate.gaussian_posteriors(ROWS, 10, seed=0)
GROUPED = pb.simulate.neural_outputs(ROWS)
Y, P = TWO.y, TWO.mcs[:, 1]  # overconfident risks of an event
LABELS, PROBS = TEN.y, TEN.mcs
LOGITS = np.log(PROBS)
CONFIDENCE, RIGHT = PROBS.max(axis=1), PROBS.argmax(axis=1) == LABELS


def peers() -> dict[str, dict[str, Callable[[], float]]]:
    """Each quantity from each package, ours first. Their calls are those of their documentation."""
    import betacal
    import glest
    import netcal.binning
    import netcal.metrics
    import netcal.scaling
    import probcal
    import relplot
    import sharpcal.recal
    import sklearn.metrics as skm
    import torch
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator
    from probmetrics.metrics import BrierLoss, LogLoss
    from sklearn.calibration import _TemperatureScaling, calibration_curve
    from sklearn.isotonic import IsotonicRegression
    from torchmetrics.functional.classification import (
        binary_calibration_error,
        multiclass_calibration_error,
    )

    torch.set_num_threads(1)
    tensor, whole = torch.from_numpy(PROBS), torch.from_numpy(LABELS.astype(np.int64))

    def ten(fitted: np.ndarray) -> float:
        """The log loss of ten classes after a fit, on the rows of the fit: what is minimised."""
        return float(-np.log(np.asarray(fitted)[np.arange(len(LABELS)), LABELS]).mean())

    def two(fitted: np.ndarray, brier: bool = False) -> float:
        q = np.asarray(fitted, dtype=float).reshape(len(Y), -1)[:, -1]
        right = np.where(Y == 1, q, 1 - q)
        return float(((1 - right) ** 2).mean() if brier else -np.log(right).mean())

    def sharpened() -> np.ndarray:
        scaler = sharpcal.recal.TemperatureScaler()
        logits = torch.from_numpy(LOGITS)
        scaler.fit(logits, whole)
        return scaler.predict_probs(logits).numpy()

    def classwise() -> float:
        each = [binary_calibration_error(tensor[:, k], whole == k, n_bins=15) for k in range(10)]
        return float(sum(each) / 10)

    def grouped() -> float:
        found = glest.GLEstimator(GROUPED.scores, random_state=0)
        return found.fit(GROUPED.features, GROUPED.y).GL() / 2  # of one class

    def ours(name: str, p: np.ndarray, y: np.ndarray, **options: object) -> np.ndarray:
        calibrator = getattr(pb.calibrators, name)(**options)
        return calibrator.fit(p, y).predict_proba(p)

    both, binary = np.c_[1 - P, P], {"lens": pb.Binary()}
    return {
        "log loss": {
            "probaudit": lambda: pb.log_score(LABELS, PROBS),
            "scikit-learn": lambda: skm.log_loss(LABELS, PROBS),
            "probmetrics": lambda: LogLoss().compute_from_labels_probs(whole, tensor),
        },
        "log loss, two classes": {
            "probaudit": lambda: pb.log_score(Y, P),
            "scikit-learn": lambda: skm.log_loss(Y, P),
            "probcal": lambda: probcal.metrics.log_loss(Y, P),
        },
        "Brier score": {
            "probaudit": lambda: pb.brier_score(LABELS, PROBS),
            "scikit-learn": lambda: skm.brier_score_loss(LABELS, PROBS, scale_by_half=False),
            "probmetrics": lambda: BrierLoss().compute_from_labels_probs(whole, tensor),
        },
        "ECE, 15 bins": {
            "probaudit": lambda: pb.calibration_error(LABELS, PROBS),
            "torchmetrics": lambda: multiclass_calibration_error(
                tensor, whole, num_classes=10, n_bins=15
            ),
            "netcal": lambda: netcal.metrics.ECE(15).measure(PROBS, LABELS),
            "relplot": lambda: relplot.metrics.binnedECE(CONFIDENCE, RIGHT, nbins=15),
        },
        "ECE of an event, 15 bins": {
            "probaudit": lambda: pb.calibration_error(Y, P, **binary),
            "probcal": lambda: probcal.metrics.ece(Y, P, n_bins=15, strategy="width"),
            "netcal": lambda: netcal.metrics.ECE(15).measure(P, Y),
        },
        "classwise ECE, 15 bins": {
            "probaudit": lambda: pb.calibration_error(LABELS, PROBS, lens=pb.Classwise()),
            "torchmetrics": classwise,
        },
        "SmoothECE of an event": {
            "probaudit": lambda: pb.smooth_calibration_error(Y, P, **binary),
            "relplot": lambda: relplot.smECE(P, Y),
            "probcal": lambda: probcal.metrics.smooth_ece(Y, P),
        },
        "temperature: log loss after the fit": {
            "probaudit": lambda: ten(ours("TemperatureScaling", PROBS, LABELS)),
            "scikit-learn": lambda: ten(_TemperatureScaling().fit(LOGITS, LABELS).predict(LOGITS)),
            "probmetrics": lambda: ten(
                TemperatureScalingCalibrator().fit(PROBS, LABELS).predict_proba(PROBS)
            ),
            "netcal": lambda: ten(
                netcal.scaling.TemperatureScaling().fit(PROBS, LABELS).transform(PROBS)
            ),
            "sharpcal": lambda: ten(sharpened()),
        },
        "beta calibration: log loss after the fit": {
            "probaudit": lambda: two(ours("BetaCalibration", both, Y)),
            "betacal": lambda: two(betacal.BetaCalibration("abm").fit(P, Y).predict(P)),
            "probcal": lambda: two(probcal.BetaCalibrator().fit(P, Y).predict_proba(P)),
            "netcal": lambda: two(netcal.scaling.BetaCalibration().fit(P, Y).transform(P)),
        },
        "isotonic: Brier score after the fit": {
            "probaudit": lambda: two(ours("IsotonicCalibration", both, Y), brier=True),
            "scikit-learn": lambda: two(
                IsotonicRegression(out_of_bounds="clip").fit(P, Y).predict(P), brier=True
            ),
            "probcal": lambda: two(
                probcal.IsotonicCalibrator().fit(P, Y).predict_proba(P), brier=True
            ),
            "netcal": lambda: two(
                netcal.binning.IsotonicRegression().fit(P, Y).transform(P), brier=True
            ),
        },
        "grouping loss": {
            "truth": lambda: GROUPED.grouping_loss,
            "probaudit": lambda: (
                pb.grouping_loss(
                    GROUPED.y, GROUPED.scores, GROUPED.features, lens=pb.Binary(), interval=None
                ).lower_bound
            ),
            "glest": grouped,
        },
        "calibration loss (log)": {
            "probaudit": lambda: pb.calibration_loss(Y, P).loss,
            "probcal": lambda: probcal.metrics.logloss_calibration_refinement(Y, P).calibration,
        },
        "reliability diagram: largest gap": {
            "probaudit": lambda: largest_gap(
                pb.diagrams.reliability_diagram(Y, P, **binary).columns()
            ),
            "scikit-learn": lambda: np.abs(np.subtract(*calibration_curve(Y, P, n_bins=15))).max(),
            "probcal": lambda: probcal_gap(
                probcal.reliability_binned(Y, P, n_bins=15, strategy="width")
            ),
        },
    }


def largest_gap(columns: dict[str, np.ndarray]) -> float:
    gaps = np.subtract(columns["observed"], columns["predicted"])
    return float(np.nanmax(np.abs(gaps)))


def probcal_gap(curve: object) -> float:
    return float(np.abs(np.subtract(curve.event_rate, curve.pred_mean)).max())


def measured(job: Callable[[], float], pipe: object) -> None:
    """Send value, CPU seconds and megabytes of a job; or the error, as text."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes or kilobytes
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            value = float(job())
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / unit
            times = []
            for _ in range(ROUNDS):
                start = time.process_time()
                job()
                times.append(time.process_time() - start)
        pipe.send((value, min(times), grown))
    except Exception:
        pipe.send(traceback.format_exc(limit=-3))


def main() -> None:
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    fork = multiprocessing.get_context("fork")
    for quantity, packages in peers().items():
        found[quantity] = {}
        for package, job in packages.items():
            ours, theirs = fork.Pipe()
            process = fork.Process(target=measured, args=(job, theirs))
            process.start()
            theirs.close()
            result = ours.recv()
            process.join()
            if isinstance(result, str):
                sys.exit(f"{quantity}, {package}:\n{result}")
            found[quantity][package] = result
            print(f"{quantity:42} {package:13} {result[0]:.6f} {result[1]:8.4f} s", flush=True)
    packages = {name: version(name) for name in COMPARED}
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    PAGE.write_text(written(found, packages, machine, ROWS), "utf-8")


if __name__ == "__main__":
    import_module("probaudit.kernels.signatures")  # before any fork
    main()
