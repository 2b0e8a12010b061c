"""Correction of probabilities for class priors that differ between training and deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ..errors import InputError
from .base import Calibrator, Sample

STEPS = 10_000
SMALL_CHANGE = 1e-10  # of any prior in a step


class PriorCorrection(Calibrator):
    """Reweights the classes for other priors: p_k deploy_k / train_k, scaled to sum to 1 (Saerens,
    Latinne & Decaestecker 2002, equation 2.4). This is exact if only the class priors differ
    between training and deployment.

    train_priors : [K], the class priors of the training data; the class frequencies of the rows of
        `fit` unless given, where a class without rows counts with its mean probability.
    deploy_priors : [K], the class priors in deployment. Without them the probabilities do not
        change until `adapt` estimates the priors from unlabelled rows.

    >>> model = PriorCorrection(train_priors=[0.5, 0.5], deploy_priors=[0.9, 0.1])
    >>> model = model.fit([[0.5, 0.5], [0.2, 0.8]], [0, 1])
    >>> model.predict_proba([[0.5, 0.5]]).round(3).tolist()
    [[0.9, 0.1]]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"train_priors_": ("K",), "deploy_priors_": ("K",)}
    train_priors_: np.ndarray
    deploy_priors_: np.ndarray

    def __init__(
        self,
        *,
        train_priors: Any = None,
        deploy_priors: Any = None,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.train_priors = train_priors
        self.deploy_priors = deploy_priors
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "prior correction"

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        size = sample.n_classes
        if self.train_priors is None:
            counts = np.bincount(sample.codes, sample.weights, size)
            counts = np.where(counts > 0, counts, sample.weights @ sample.probs)
            self.train_priors_ = counts / counts.sum()
        else:
            self.train_priors_ = _priors(self.train_priors, "train_priors", size)
            if not self.train_priors_.all():
                raise InputError("train_priors", "must be above 0", self.train_priors_.tolist())
        if self.deploy_priors is None:
            self.deploy_priors_ = self.train_priors_.copy()
            status = "deployment priors are unknown: nothing changes until `adapt` estimates them"
            return True, status
        self.deploy_priors_ = _priors(self.deploy_priors, "deploy_priors", size)
        return True, "deployment priors as given"

    def adapt(self, P: Any, sample_weight: Any = None) -> Self:
        """Estimate the deployment priors from outputs without labels, by expectation maximisation
        (Saerens et al. 2002, equation 2.9). The log-likelihood is concave in the priors, so that
        the iteration converges to its maximum."""
        check_is_fitted(self, "classes_")
        if self.deploy_priors is not None:
            raise InputError(
                "deploy_priors",
                "must be None, so that `adapt` can estimate them",
                repr(self.deploy_priors),
            )
        sample = self._sample(P)
        weights = np.asarray(
            _check_sample_weight(sample_weight, sample.values, ensure_non_negative=True), np.float64
        )
        if not weights.any():
            raise InputError("sample_weight", "must not be all zero")
        shares = weights / weights.max()
        shares /= shares.sum()
        priors, converged, status = self._estimate(sample, shares)
        self.deploy_priors_ = priors
        self.fit_report_ = replace(
            self.fit_report_, converged=converged, status=f"deployment priors estimated: {status}"
        )
        return self

    def _estimate(self, sample: Sample, shares: np.ndarray) -> tuple[np.ndarray, bool, str]:
        likelihood = np.exp(self._log_likelihood(sample))
        priors = self.train_priors_
        for step in range(STEPS):
            mixed = likelihood @ priors
            new = priors * ((shares / np.where(mixed > 0, mixed, 1)) @ likelihood)
            new /= new.sum()
            change = float(np.abs(new - priors).max())
            priors = new
            if change < SMALL_CHANGE:
                return priors, True, f"converged in {step + 1} steps"
        return priors, False, f"did not converge in {STEPS} steps, last change {change:.1e}"

    def _log_likelihood(self, sample: Sample) -> np.ndarray:
        """log(p / train) for each class, less the largest of the row."""
        logs = sample.log_probs - np.log(np.maximum(self.train_priors_, np.finfo(np.float64).tiny))
        return logs - logs.max(axis=1, keepdims=True)

    def _transform(self, sample: Sample) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = self._log_likelihood(sample) + np.log(self.deploy_priors_)
        q = np.exp(logs - logs.max(axis=1, keepdims=True))
        return q / q.sum(axis=1, keepdims=True)


def _priors(values: Any, name: str, size: int) -> np.ndarray:
    priors = np.asarray(values, np.float64)
    if priors.shape != (size,):
        rule = f"must have one number for each of the {size} classes"
        raise InputError(name, rule, f"has shape {priors.shape}")
    if not (np.isfinite(priors).all() and (priors >= 0).all() and abs(priors.sum() - 1) < 1e-6):
        raise InputError(name, "must be finite, not negative, and sum to 1", priors.tolist())
    return priors / priors.sum()
