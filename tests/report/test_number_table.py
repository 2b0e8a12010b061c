"""Tables of the terminal: whole on a wide console, in parts on a narrow one."""

from __future__ import annotations

import pytest
from rich.text import Text

import probaudit as pb
from probaudit.report.number_table import NumberTable, of_result
from probaudit.report.terminal import plain_text

NAMES = ("ECE, 15 bins of equal width", "SmoothECE")


def table() -> NumberTable:
    found = NumberTable("error", "value", "95% interval", "ratio", "95% interval")
    for k, name in enumerate(NAMES):
        found.add_row(Text(name), f"0.{k}111", "0.1000 to 0.2000", f"0.{k}222", "0.3000 to 0.4000")
    return found


def test_a_wide_console_has_one_table():
    lines = plain_text(table(), 80).splitlines()
    assert len(lines) == 2 + len(NAMES)
    assert lines[2].startswith(NAMES[0])
    assert lines[2].endswith("0.3000 to 0.4000")


@pytest.mark.parametrize("width", [40, 50, 60])
def test_a_narrow_console_has_all_numbers_beside_their_names(width):
    """No word is broken, and an interval stays beside its number."""
    text = plain_text(table(), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count(NAMES[1]) == 2
    smooth = [line.split() for line in text.splitlines() if line.startswith(NAMES[1])]
    assert smooth == [
        ["SmoothECE", "0.1111", "0.1000", "to", "0.2000"],
        ["SmoothECE", "0.1222", "0.3000", "to", "0.4000"],
    ]


def test_rows_without_further_numbers_are_not_repeated():
    found = table()
    found.add_row("MCE", "0.3111", "0.2000 to 0.4000", "", "")
    assert plain_text(found, 50).count("MCE") == 1
    remarks = NumberTable("repair", "log loss", "remark")
    remarks.add_row("temperature scaling", "0.4214", "")
    assert plain_text(remarks, 24).count("temperature") == 1
    assert "remark" not in plain_text(remarks, 24)


def test_the_table_of_a_result():
    world = pb.simulate.gaussian_posteriors(500, 3)
    found = pb.calibration_test(world.y, world.mcs, resamples=20)
    text = plain_text(of_result(found), 200)
    assert text.splitlines()[0] == repr(found).splitlines()[0]
    assert text.splitlines()[-1].split() == repr(found).splitlines()[-1].split()
