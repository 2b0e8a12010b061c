from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.calibration.sweeps import stable_run


def test_a_sweep_is_the_errors_of_its_partitions():
    world = pb.simulate.gaussian_posteriors(800, 3, seed=1)
    partitions = [pb.EqualWidth(b) for b in (2, 5, 15, 60)]
    found = pb.partition_sweep(
        world.y, world.mcs, partitions=partitions, lens=pb.TopLabel(), resamples=100
    )
    expected = [
        pb.calibration_error(world.y, world.mcs, partition=p, distance="tvd") for p in partitions
    ]
    np.testing.assert_allclose(found.values, expected)
    assert (found.deviations > 0).all()
    assert found.stable.any()


def test_finer_trees_add_chance_to_a_calibrated_model():
    world = pb.simulate.gaussian_posteriors(1000, 4, seed=2)
    found = pb.partition_sweep(world.y, world.cal, resamples=50)
    assert found.values[-1] > 2 * found.values[0]
    assert not found.stable.all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1, 1], [1, 1, 1]),
        ([0, 1, 2], [0, 0, 1]),
        ([0, 0.01, 1, 1.01], [0, 0, 1, 1]),
        ([0, 0.01, 0.02, 9], [1, 1, 1, 0]),
    ],
)
def test_stable_runs(values, expected):
    np.testing.assert_array_equal(
        stable_run(np.array(values, float), np.full(len(values), 0.05)), np.array(expected, bool)
    )


def test_one_partition_is_no_sweep():
    with pytest.raises(pb.InputError, match="two partitions"):
        pb.partition_sweep([0, 1], [0.2, 0.8], partitions=[pb.Whole()])
