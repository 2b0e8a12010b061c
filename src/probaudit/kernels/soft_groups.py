"""The likelihood of a mixture of temperatures, whose weights are a softmax of scores (Yang et al.
2023, Eq. 13)."""

from __future__ import annotations

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log

TILE = 128


@inline
def _tempered(logits, true_logits, start, m, beta, total, first, log_likelihood, slope):
    """For the rows of a tile, log softmax(beta z)_y and its slope in beta."""
    # a slice first: the compiler does not vectorise an index with an offset
    true = true_logits[start : start + m]
    for r in range(m):
        total[r], first[r] = 0.0, 0.0
    for k in range(logits.shape[0]):
        z = logits[k, start : start + m]
        for r in range(m):
            e = exp(beta * z[r])
            total[r] += e
            first[r] += e * z[r]
    for r in range(m):
        log_likelihood[r] = beta * true[r] - log(total[r])
        slope[r] = true[r] - first[r] / total[r]


@inline
def _log_total(terms, m, top, total):
    """The log of the sum over groups of e^term, for each row of a tile, left in `total`."""
    for r in range(m):
        top[r], total[r] = terms[0, r], 0.0
    for g in range(1, terms.shape[0]):
        for r in range(m):
            top[r] = max(top[r], terms[g, r])
    for g in range(terms.shape[0]):
        for r in range(m):
            total[r] += exp(terms[g, r] - top[r])
    for r in range(m):
        total[r] = top[r] + log(total[r])


@kernel
def mixture_loss(logits, true_logits, weights, betas, scores, beta_slopes):
    """The sum of w (-log sum_g pi_g softmax(beta_g z)_y), pi = softmax(scores), and its gradient.

    Arrays are transposed: logits [K, n], of which the largest of each row is 0, and scores [G, n].
    The gradient overwrites `scores` and `beta_slopes`, [G].
    """
    groups, n = scores.shape
    own, joint, slopes = (
        np.empty((groups, TILE)),
        np.empty((groups, TILE)),
        np.empty((groups, TILE)),
    )
    prior, posterior, spare = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    loss = 0.0
    beta_slopes[:] = 0.0
    for start in range(0, n, TILE):
        m = min(TILE, n - start)
        w = weights[start : start + m]
        for g in range(groups):
            score = scores[g, start : start + m]
            _tempered(logits, true_logits, start, m, betas[g], prior, spare, joint[g], slopes[g])
            for r in range(m):
                own[g, r] = score[r]
                joint[g, r] += score[r]
        _log_total(own, m, spare, prior)
        _log_total(joint, m, spare, posterior)
        for r in range(m):
            loss += w[r] * (prior[r] - posterior[r])
        for g in range(groups):
            score = scores[g, start : start + m]
            for r in range(m):
                share, chosen = exp(own[g, r] - prior[r]), exp(joint[g, r] - posterior[r])
                score[r] = w[r] * (share - chosen)
                spare[r] = w[r] * chosen * slopes[g, r]
            for r in range(m):
                beta_slopes[g] -= spare[r]
    return loss
