from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small train fastest on one thread, while other tests use the other cores."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
