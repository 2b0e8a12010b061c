"""The page docs/peers-measured.md: a table for each quantity, and why values differ."""

from __future__ import annotations

COMPARED = (
    "probaudit",
    "scikit-learn",
    "probcal",
    "probmetrics",
    "netcal",
    "torchmetrics",
    "relplot",
    "betacal",
    "glest",
    "sharpcal",
)

OPENING = """\
# Peers, measured

Other packages compute some of the same quantities. `make bench-peers` installs them into an
environment of their own, computes each quantity from the same {rows:,} rows with each package, and
writes this page. Rows come from `pb.simulate`, so anyone can repeat it.

- **CPU**: milliseconds of all threads, in the fastest of three runs after a first one. Imports and
  the compiling of kernels are not counted.
- **memory**: growth of the peak of resident memory in the first run, in megabytes. What a package
  loads at its first use counts: for probaudit, its compiled kernels.
- **value**: of a calibrator, the loss that its fit minimises, on the rows of the fit. Lower is a
  better fit.

Machine: {machine}.
"""

WHY = {
    "log loss": """\
The outputs are overconfident, many below 10⁻¹⁶. scikit-learn clips probabilities to 2.2 × 10⁻¹⁶, so
that its log loss is too low. probaudit and probmetrics clip nothing.""",
    "log loss, two classes": "probcal and scikit-learn clip probabilities; probcal clips more.",
    "Brier score": "scikit-learn needs `scale_by_half=False` for the sum over classes.",
    "ECE, 15 bins": """\
All agree but for torchmetrics: it converts outputs to 32-bit numbers, and puts confidences of
exactly 1 in a bin of their own. relplot takes confidences and correctness, which saves the work of
finding them.""",
    "ECE of an event, 15 bins": 'probcal has bins of equal mass unless `strategy="width"`.',
    "SmoothECE of an event": """\
All solve smECE(σ) = σ. relplot counts half the mass in the end cells, so that its value is too
large if many outputs are near 0 or 1. probcal smooths on the logit scale without reflection: a
different quantity with the same name, here with nearly the same value.""",
    "temperature: log loss after the fit": """\
The fit is convex in 1/T, so that there is one answer. netcal's is higher: it clips the outputs
before the fit. sharpcal takes up to 1,000 small steps of L-BFGS. scikit-learn is called below its
public class, `CalibratedClassifierCV(method="temperature")`, to leave out the wrapped model.""",
    "beta calibration: log loss after the fit": """\
All others clip the outputs before they take logarithms: betacal and netcal at 2.2 × 10⁻¹⁶, probcal
further from 0 and 1. That costs them the difference.""",
    "isotonic: Brier score after the fit": """\
At the rows of the fit all should be the same, the least Brier score of any increasing curve.
probcal clips the outputs. netcal uses scikit-learn's curve, which
needs `out_of_bounds="clip"`: without it, 82 of the rows that it was fitted to, those next to 1,
have the prediction NaN. Between the levels, it interpolates.""",
    "grouping loss": """\
Both are lower bounds of the value in the line "truth". glest sums over both classes, and is halved
here. It learns regions on one half of the rows and evaluates on the other; probaudit does this both
ways and averages.""",
    "calibration loss (log)": """\
Two definitions. probaudit reports what recalibration (bias-corrected temperature) removes from the
log loss of rows that were not used to fit it. probcal reports the divergence from a LOESS curve of
the same rows; a smooth of the outputs cannot follow a curve that is steep next to 0 and 1, and the
result is more than the whole log loss.""",
    "reliability diagram: largest gap": """\
The largest difference of a bin's mean prediction and its observed rate. probaudit also computes the
intervals of the diagram and the range expected if calibrated.""",
}

CLOSING = """\
## What peers do better

- **scikit-learn** is there already, has the most users and reviewers, and is the first choice for
  a plain Brier score, a reliability diagram or an isotonic fit.
- **probcal** needs only numpy, and was the fastest here for scores and errors of an event. For
  credit risk it has master scales, offsets and inverse maps.
- **torchmetrics** and **probmetrics** work on GPUs, in batches and within a training loop, with
  automatic differentiation of smooth measures. probaudit copies tensors to the CPU.
- **netcal** calibrates object detection and regression, and has Bayesian fits of calibrators with
  an uncertainty of their parameters. probaudit does neither.
- **probmetrics** has calibrators from trees and order-preserving networks.
- **relplot** and **sharpcal** are the authors' own code, small enough to be read in an hour, with
  the diagrams of their papers. sharpcal fits scalers within PyTorch.
- **betacal** and **glest** are the authors' own code of beta calibration and the grouping loss;
  glest shows the regions of its bins in a diagram of its own.
- Those that do not need torch are smaller to install than probaudit. Apart from sharpcal and glest,
  all need less memory for a first call: probaudit loads compiled kernels.

## What probaudit does beside

Its values have a definition, their rows and, on demand, an interval, also of dependent rows. It
clips nothing. Results are identical for any number of threads, blocks and machines.
"""


def written(
    found: dict[str, dict[str, tuple[float, float, float]]],
    versions: dict[str, str],
    machine: str,
    rows: int,
) -> str:
    """The page, from value, CPU seconds and megabytes by quantity and package."""
    parts = [OPENING.format(rows=rows, machine=machine)]
    parts.append(
        "| package | version |\n|---|---|\n"
        + "".join(f"| {name} | {version} |\n" for name, version in versions.items())
    )
    for quantity, packages in found.items():
        parts.append(f"## {quantity[0].upper()}{quantity[1:]}\n")
        parts.append(_table(packages))
        if quantity in WHY:
            parts.append(f"{WHY[quantity]}\n")
    return "\n".join([*parts, CLOSING])


def _table(packages: dict[str, tuple[float, float, float]]) -> str:
    lines = ["| package | value | difference | CPU, ms | memory, MB |", "|---|---|---|---|---|"]
    ours = packages["probaudit"][0]
    for package, (value, seconds, megabytes) in packages.items():
        if package == "truth":
            lines.append(f"| truth | {value:.6f} | {_signed(value - ours)} | – | – |")
            continue
        gap = "–" if package == "probaudit" else _signed(value - ours)
        lines.append(
            f"| {package} | {value:.6f} | {gap} | {seconds * 1e3:,.1f} | {megabytes:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def _signed(gap: float) -> str:
    """A difference to six decimals, with a real minus sign; 0 if it rounds to 0."""
    text = f"{gap:+.6f}"
    return "0" if float(text) == 0 else text.replace("-", "−")
