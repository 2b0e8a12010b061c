from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

# Workers run beside each other, one for each core. Threads of BLAS would wait for a core in a busy
# loop: with them, tests that train a model cost half as much again. It counts when numpy is loaded.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from tests import rare_kernels  # noqa: E402

# A shell starts background jobs (`nohup`, `make test &`) with SIGINT ignored, and child processes
# inherit that. Tests of Ctrl-C need Python's own handler, whatever the shell did.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A cold cache must not add a line to the output that tests compare.
os.environ["PROBAUDIT_QUIET"] = "1"


rare_kernels.spare()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests and modules, which live until the end."""
    gc.collect()
    gc.freeze()


SHARED = Path(__file__).parents[1].parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `../shared` with reference values and real predictions; skips without it."""
    if not (SHARED / "golden").is_dir():
        pytest.skip("the folder ../shared with reference values and real predictions is absent")
    return SHARED


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
