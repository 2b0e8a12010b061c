"""Out-of-fold log loss of every calibrator on real predictions, as a table.

structured_scaling.py FOLDER [--two] [NAME ...]

FOLDER has .npz files with `logits` or `probs`, and `labels`; files of two classes are skipped, or
with --two all others. NAMEs restrict the table to some calibrators. Each file has 5 random folds,
the same for all calibrators. A star marks the lowest loss of a file, a plus sign a loss that is
within one standard error of it (paired rows). The last lines count how often each calibrator is the
best or tied with it, and for how many files structured scaling is.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np

from probaudit.calibrators.calibration_loss import Outputs, out_of_fold
from probaudit.calibrators.folds import fold_numbers
from probaudit.calibrators.registry import METHODS, calibrator_named
from probaudit.calibrators.selection import choose_calibrator
from probaudit.data.predictions import Predictions

FOLDS = 5
STRUCTURED = ("structured_vector", "structured_matrix")
# K^2 parameters and a weak penalty: minutes for a hundred classes
SLOW, MOST_CLASSES = ("matrix", "dirichlet"), 20


def predictions(path: Path) -> Predictions:
    with np.load(path) as data:
        logits = "logits" in data
        values = data["logits" if logits else "probs"]
        return Predictions(data["labels"], values, from_logits=logits, tolerance=1e-3)


def losses(rows: Predictions, names: list[str]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """The out-of-fold log loss of each row by calibrator, and seconds for all folds."""
    outputs = Outputs.of(rows, None)
    folds = fold_numbers(FOLDS, outputs.codes, None, seed=0)
    each, found, seconds = np.arange(len(rows)), {}, {}
    for name in names:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posteriors = out_of_fold(outputs, folds, calibrator_named(name))
        seconds[name] = time.perf_counter() - start
        with np.errstate(divide="ignore"):
            found[name] = -np.log(posteriors[each, outputs.codes])
    return found, seconds


def run(folder: Path, *, two: bool = False, only: tuple[str, ...] = ()) -> None:
    methods = [
        name
        for name, (entry, method) in METHODS.items()
        if not entry.needs and method.role != "control" and (not only or name in only)
    ]
    wins, ties = dict.fromkeys(methods, 0), dict.fromkeys(methods, 0)
    files, ours = 0, 0
    for path in sorted(folder.glob("*.npz")):
        rows = predictions(path)
        if (rows.n_classes == 2) != two:
            continue
        names = [name for name in methods if rows.n_classes <= MOST_CLASSES or name not in SLOW]
        found, seconds = losses(rows, names)
        share = np.full(len(rows), 1 / len(rows))
        choice = choose_calibrator(found, found["identity"], share, None, eligible=names)
        assert choice is not None
        print(f"\n{path.stem}: {len(rows)} rows, {rows.n_classes} classes")
        files += 1
        ours += any(choice.tied(name) for name in names if name in STRUCTURED)
        for name in sorted(names, key=lambda name: choice.differences[name]):
            best, tied = name == choice.best, choice.tied(name)
            wins[name] += best
            ties[name] += tied
            mark = "*" if best else "+" if tied else " "
            print(
                f"  {mark} {name:28}{found[name].mean():10.5f}{choice.differences[name]:10.5f}"
                f"{seconds[name]:8.2f} s",
                flush=True,
            )
    print(f"\nbest or tied with the best, of {files} files")
    for name in sorted(methods, key=lambda name: (-ties[name], -wins[name])):
        print(f"  {name:28}{wins[name]:3} best {ties[name]:3} best or tied")
    print(f"structured scaling is the best or tied with it in {ours} of {files} files")


if __name__ == "__main__":
    _, where, *others = sys.argv
    run(
        Path(where),
        two="--two" in others,
        only=tuple(name for name in others if name != "--two"),
    )
