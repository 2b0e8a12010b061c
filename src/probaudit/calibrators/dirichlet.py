"""Dirichlet calibration."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from .base import Sample
from .fitting.affine_softmax import Ridge, fit_affine_map, softmax_terms
from .fitting.softmax_sums import SoftmaxSums
from .fitting.summed import SummedCalibrator, log_scores, original_rows
from .one_vs_rest import share_out


class DirichletCalibration(SummedCalibrator):
    """Applies an affine map to all log-probabilities, with a penalty: softmax(W log p + b).

    This is the calibration map if the probabilities of each class follow a Dirichlet distribution
    (Kull et al. 2019, equation 3). W and b minimise the mean log loss plus

        odir_1 (sum of squares of W off its diagonal) + odir_2 (sum of squares of b)
        + l2 (sum of squares of W and b)

    odir : off-diagonal and intercept regularisation (Kull et al. 2019, section 3.3): one number, or
        a pair (odir_1, odir_2). It does not penalise the identity.
    l2 : the ridge penalty of section 3.3. It shrinks towards 0, and so away from the identity.
    ref_row : penalise W and b minus their last row, as the code of Kull et al. 2019 does by
        default. The identity then has a positive penalty.

    The problem is convex. L-BFGS starts from the identity. With up to 20 classes, Newton's method
    follows after 100 steps, as L-BFGS alone may need thousands for extreme logits. A fit that does
    not converge warns. If the log loss of the rows gets worse, which only `l2` and `ref_row` can
    cause, the identity is used. A class without rows keeps its probabilities, and the other classes
    share the rest.

    >>> P = [[0.6, 0.4], [0.7, 0.3], [0.3, 0.7], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9]]
    >>> y = [0, 1, 1, 0, 0, 1]
    >>> DirichletCalibration(odir=0.1).fit(P, y).predict_proba([[0.8, 0.2]]).round(3).tolist()
    [[0.81, 0.19]]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {
        "weights_": ("S", "S"),
        "intercept_": ("S",),
        "seen_": ("S",),
    }
    weights_: np.ndarray  # [S, S] for the S classes that had rows
    intercept_: np.ndarray  # [S]
    seen_: np.ndarray  # their columns

    def __init__(
        self,
        *,
        odir: float | tuple[float, float] = 0.1,
        l2: float = 0.0,
        ref_row: bool = False,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.odir = odir
        self.l2 = l2
        self.ref_row = ref_row
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "Dirichlet calibration"

    def _check_choices(self) -> None:
        self._penalties()

    def _penalties(self) -> tuple[float, float, float]:
        pair: list[float] = np.atleast_1d(self.odir).tolist()
        if np.ndim(self.odir) == 0:
            pair *= 2
        if len(pair) != 2 or not all(0 <= value < np.inf for value in pair):
            raise InputError(
                "odir", "must be a finite number, at least 0, or a pair of them", self.odir
            )
        if not 0 <= self.l2 < np.inf:
            raise InputError("l2", "must be a finite number, at least 0", self.l2)
        return float(pair[0]), float(pair[1]), float(self.l2)

    def _solve(self, rows: SoftmaxSums) -> tuple[bool, str]:
        off_diagonal, intercept, l2 = self._penalties()
        self.seen_ = rows.present
        size = len(self.seen_)
        penalties = np.full((size, size + 1), off_diagonal + l2)
        np.fill_diagonal(penalties, l2)
        penalties[:, -1] = intercept + l2
        identity = np.eye(size, size + 1)
        fit = fit_affine_map(
            rows,
            original_rows,
            self.seen_,
            Ridge(penalties, np.zeros((size, size + 1))),
            (identity - identity[-1])[:-1] if self.ref_row else identity,
        )
        theta = np.zeros((size, size + 1))
        theta[: len(fit.weights)] = fit.weights
        self.weights_, self.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()
        before, after = log_scores(rows, self._transform)
        if not after <= before:
            self.weights_, self.intercept_ = np.eye(size), np.zeros(size)
            return True, "identity: no fit improves the log loss"
        if fit.converged:
            return True, f"converged in {fit.steps} steps{self._unseen_remark()}"
        status = f"did not converge in {fit.steps} steps, largest slope {fit.largest_slope:.1e}"
        warnings.warn(f"Dirichlet calibration {status}: the fit may be improved", stacklevel=2)
        return False, status + self._unseen_remark()

    def _unseen_remark(self) -> str:
        unseen = [str(label) for label in np.delete(self.classes_, self.seen_)]
        if not unseen:
            return ""
        names = ", ".join(unseen[:5]) + " ..." * (len(unseen) > 5)
        return f"; class {names}: no rows, probabilities kept"

    def _transform(self, sample: Sample) -> np.ndarray:
        q = np.zeros(sample.values.shape)
        q[:, self.seen_] = softmax_terms(
            sample.log_probs[:, self.seen_] @ self.weights_.T + self.intercept_
        )[0]
        unseen = np.setdiff1d(np.arange(sample.n_classes), self.seen_)
        return share_out(q, sample.probs, unseen.tolist())
