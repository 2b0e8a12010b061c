"""Without torch, everything else imports, and what needs torch says how to install it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'")

sys.meta_path.insert(0, NoTorch())
import numpy as np
import probaudit as pb

need_torch = {"losses", "mixing", "networks"}
for module in pkgutil.walk_packages(pb.__path__, "probaudit."):
    if module.name.endswith("__main__"):
        continue
    if module.name.startswith("probaudit.training.") and module.name.split(".")[-1] in need_torch:
        try:
            importlib.import_module(module.name)
        except ImportError as problem:
            assert str(problem) == "Training needs torch: pip install 'probaudit[torch]'", problem
        else:
            raise AssertionError(module.name)
    else:
        importlib.import_module(module.name)

pb.training.corrupt(np.zeros((1, 4, 4)), "noise")
trainer = pb.training.Trainer(intervention=pb.training.MixUp(0.2))
for use in (
    lambda: pb.training.FocalLoss,
    lambda: pb.training.networks,
    lambda: trainer.train(None, ()),
    lambda: pb.training.LabelSmoothing().loss(),
):
    try:
        use()
    except ImportError as problem:
        assert "pip install 'probaudit[torch]'" in str(problem)
    else:
        raise AssertionError(use)
assert len(pb.collect(lambda x: x, (np.zeros((3, 2)), [0, 1, 1]), outputs="logits")) == 3
"""


def test_without_torch():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
