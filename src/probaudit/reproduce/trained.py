"""Networks trained on Fashion-MNIST for the experiments, stored so that papers share them.

torch is imported only to train a network or to ask it for outputs that are not stored.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.extras import needed
from ..data.predictions import Predictions
from ..errors import InputError
from ..files.writing import write_bytes
from ..models.collect import collect
from ..training import INTERVENTIONS, Trainer, corrupt, fashion_mnist
from ..training.images import DEBIAN_FOLDER

# The last rows of the training file are never trained on: they are for calibration.
HELD_OUT = 10_000


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    network : a name of `named_model`. intervention : a name of `INTERVENTIONS`.
    rows : as many from the beginning of the training file. seed : of initial weights and order.
    """

    network: str = "lenet"
    intervention: str = "base"
    seed: int = 0
    rows: int = 20_000
    epochs: int = 5


@dataclass(frozen=True)
class Networks:
    """The folder of stored networks and their outputs. What is absent is made when asked for.

    images : the folder of the files of Fashion-MNIST.
    """

    path: Path
    images: str | Path = DEBIAN_FOLDER

    def outputs(
        self, recipe: Recipe, part: str = "test", *, corruption: str = "", severity: int = 0
    ) -> Predictions:
        """Logits, penultimate features and labels of a network.

        part : "test", 10,000 rows; or "calibration", the last 10,000 rows of the training file.
        corruption, severity : as of `corrupt`; "" for none.
        """
        shown = f"{part}-{corruption}-{severity}" if corruption else part
        file = self._file(recipe, f"{shown}.npz")
        try:
            with np.load(file) as stored:
                labels, logits, features = (
                    stored[name] for name in ("labels", "logits", "features")
                )
        except (OSError, ValueError, KeyError):
            images, labels = self._images(part)
            if corruption:
                images = corrupt(images, corruption, severity)
            with _one_thread():
                found = collect(self._model(recipe), (images, labels), progress=False)
            logits = np.asarray(found.probs, np.float32)
            features = np.asarray(found.features, np.float32)
            content = io.BytesIO()
            np.savez(content, labels=labels, logits=logits, features=features)
            write_bytes(file, content.getvalue())
        return Predictions(labels, logits, features=features, from_logits=True)

    def _model(self, recipe: Recipe) -> Any:
        """The trained network; its weights are stored."""
        from ..training.networks import named_model

        torch = needed("torch", "Training", "torch")
        model = named_model(recipe.network, seed=recipe.seed)
        file = self._file(recipe, "weights.pt")
        if file.is_file():
            model.load_state_dict(torch.load(file, weights_only=True))
            return model
        images, labels = fashion_mnist("train", folder=self.images, rows=recipe.rows + HELD_OUT)
        data = images[: recipe.rows], labels[: recipe.rows]
        if len(images) < recipe.rows + HELD_OUT:
            rule = f"must leave {HELD_OUT:,} rows of the training file for calibration"
            raise InputError("rows", rule, recipe.rows)
        trainer = Trainer(
            epochs=recipe.epochs,
            intervention=INTERVENTIONS[recipe.intervention],
            seed=recipe.seed,
            progress=False,
        )
        with _one_thread():
            trainer.train(model, data)
        content = io.BytesIO()
        torch.save(model.state_dict(), content)
        write_bytes(file, content.getvalue())
        return model

    def _images(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        if part == "test":
            return fashion_mnist("test", folder=self.images)
        images, labels = fashion_mnist("train", folder=self.images)
        return images[-HELD_OUT:], labels[-HELD_OUT:]

    def _file(self, recipe: Recipe, name: str) -> Path:
        chosen = asdict(recipe) | {"images": str(self.images), "source": training_source()}
        key = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:12]
        folder = self.path / f"{recipe.network}-{recipe.intervention.replace(' ', '-')}-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name


@functools.cache
def training_source() -> str:
    """Identifies the code that trains. Networks of other code are not used."""
    training = Path(__file__).parents[1] / "training"
    found = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(training.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch with one thread: the numbers do not depend on the cores of a machine."""
    torch = needed("torch", "Training", "torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
