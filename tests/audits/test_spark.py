"""The Spark recipe of docs/states.md, run on a local Spark."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit.audits.state import State, statistics

RECIPES = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parents[2] / "docs" / "states.md").read_text(),
    re.DOTALL,
)
CLASSES = ["cat", "dog"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore:::pyspark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(pb.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "700")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    world = pb.simulate.gaussian_posteriors(5000, 2, seed=3)
    order = np.random.default_rng(0).permutation(len(world.y))
    columns = {
        "p_cat": world.cal[order, 0],
        "p_dog": world.cal[order, 1],
        "row": np.arange(len(order)),
    }
    return pd.DataFrame({"label": np.array(CLASSES)[world.y[order]]} | columns)


@pytest.fixture(scope="module")
def frame(spark: Any, rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Files of different sizes, one of them with fewer rows than partitions."""
    folder = tmp_path_factory.mktemp("rows")
    for i, (first, end) in enumerate([(0, 2300), (2300, 2301), (2301, 5000)]):
        rows[first:end].to_parquet(folder / f"{i}.parquet")
    return spark.read.parquet(str(folder))


def recipe(marker: str) -> str:
    return next(code for code in RECIPES if marker in code)


def test_the_recipe_gives_the_same_sums_as_memory(frame, rows):
    names: dict[str, Any] = {"__name__": "__main__", "frame": frame.repartition(5)}
    exec(recipe("TaskContext"), names)
    whole, memory = names["whole"], statistics(classes=CLASSES).update(pb.read(rows))
    assert whole.sums.to_bytes() == memory.sums.to_bytes()
    assert whole.rows == len(rows) == len(whole.finalise().sample)
    assert whole.finalise().fingerprint == memory.finalise().fingerprint


@pytest.mark.parametrize("partitions", [None, 1, 7])
def test_with_row_numbers_the_state_is_identical_to_memory(frame, rows, partitions):
    names: dict[str, Any] = {"__name__": "__main__", "frame": frame}
    exec(recipe("TaskContext").split("parts =")[0] + recipe("numbers=batch"), names)
    cut = (
        frame
        if partitions is None
        else frame.repartitionByRange(partitions, "row").sortWithinPartitions("row")
    )
    found = cut.mapInArrow(names["count_numbered"], "state binary").collect()
    whole = statistics(classes=CLASSES)
    for row in found:
        whole.merge(State.from_bytes(bytes(row.state)))
    assert whole.to_bytes() == statistics(classes=CLASSES).update(pb.read(rows)).to_bytes()


def test_the_error_names_the_bad_row(frame):
    names: dict[str, Any] = {"__name__": "__main__", "frame": frame}
    exec(recipe("TaskContext").split("parts =")[0], names)
    broken = frame.selectExpr("label", "p_cat", "if(row = 4000, 0.5, p_dog) as p_dog")
    with pytest.raises(Exception, match="a row must sum to 1"):
        broken.mapInArrow(names["count"], "state binary").collect()


def test_a_part_is_not_merged_twice(frame):
    names: dict[str, Any] = {"__name__": "__main__", "frame": frame}
    exec(recipe("TaskContext").split("print")[0], names)
    part = State.from_bytes(bytes(names["parts"][0].state))
    with pytest.raises(pb.InputError, match="no row may be counted twice"):
        names["whole"].merge(part)
