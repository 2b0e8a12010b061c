"""The likelihood of a mixture of temperatures whose weights are a softmax of scores (Yang et al.
2023, Eq. 13)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiling import inline, kernel
from .elementary import exp, log

TILE = 128


class Scratch(NamedTuple):
    """What is known about each row of a tile: [groups, TILE], and [TILE]."""

    own: np.ndarray  # scores
    joint: np.ndarray  # scores plus log softmax(beta z)_y
    slopes: np.ndarray  # of that in beta
    prior: np.ndarray  # log of the sum over groups of e^own
    posterior: np.ndarray  # log of the sum over groups of e^joint
    spare: np.ndarray


@inline
def _add_group(logits, true_logits, start, beta, g, room):
    """Compute log softmax(beta z)_y and its slope in beta for the rows of a tile, which have the
    logits `true_logits` for their true classes, and join it with the scores of group g."""
    m, total, first = true_logits.size, room.prior, room.spare
    joint, slope, own = room.joint[g], room.slopes[g], room.own[g]
    for r in range(m):
        total[r], first[r] = 0.0, 0.0
    for k in range(logits.shape[0]):
        z = logits[k, start : start + m]
        for r in range(m):
            e = exp(beta * z[r])
            total[r] += e
            first[r] += e * z[r]
    for r in range(m):
        joint[r] = beta * true_logits[r] - log(total[r])
        slope[r] = true_logits[r] - first[r] / total[r]
    for r in range(m):
        joint[r] += own[r]


@inline
def _log_total(terms, m, top, total):
    """total = the log of the sum over groups of e^term, for each row of a tile."""
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
    shape = (groups, TILE)
    room = Scratch(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(TILE),
        np.empty(TILE),
        np.empty(TILE),
    )
    own, joint, slopes, prior, posterior, spare = room
    loss = 0.0
    beta_slopes[:] = 0.0
    for start in range(0, n, TILE):
        m = min(TILE, n - start)
        w = weights[start : start + m]
        for g in range(groups):
            # a slice first: the compiler does not vectorise an index with an offset
            score = scores[g, start : start + m]
            for r in range(m):
                own[g, r] = score[r]
            _add_group(logits, true_logits[start : start + m], start, betas[g], g, room)
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
