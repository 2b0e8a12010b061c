"""Threads of matrix products."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import probaudit as pb
from probaudit.audits import audit as audits
from probaudit.data.work import one_blas_thread


def blas_threads() -> set[int]:
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_matrix_products_use_one_thread_inside_and_as_many_as_before_outside():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_an_audit_uses_one_thread_for_matrix_products(monkeypatch):
    seen = []
    judge = audits.judge

    def judged(case):
        seen.append(blas_threads())
        return judge(case)

    monkeypatch.setattr(audits, "judge", judged)
    rng = np.random.default_rng(0)
    p = rng.random(50)
    with threadpool_limits(2, user_api="blas"):
        pb.audit((rng.random(50) < p).astype(int), p, repair=False)
    assert seen == [{1}]
