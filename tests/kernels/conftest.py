from __future__ import annotations

import pytest

from tests import rare_kernels


@pytest.fixture(autouse=True)
def compiled_too():
    """Compile every signature that a test of kernels needs."""
    rare_kernels.compiled_too.set()
    yield
    rare_kernels.compiled_too.clear()
