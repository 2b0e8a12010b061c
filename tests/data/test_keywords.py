"""Unknown keywords get the same error in every public function."""

from __future__ import annotations

import inspect

import pytest

import probaudit as pb
from probaudit.data.keywords import COLUMNS, SYNONYMS, with_known_keywords
from probaudit.files.layout import ReadOptions

# These pass their options on to a function that checks them.
PASSED_ON = {"as_scorer", "grouping_rates", "grouping_diagram", "loss_budget_diagram"}
PASSED_ON |= {"sweep_diagram"}
NO_ARGUMENTS = {"warm_up"}  # there is no right keyword to name
FUNCTIONS = {
    name: getattr(module, name)
    for module in (pb, pb.diagrams)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) and name not in PASSED_ON | NO_ARGUMENTS
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_name_their_arguments(name):
    with pytest.raises(TypeError, match=rf"{name}\(\) has no argument `xyz` \(found: 1\)\. Arg"):
        FUNCTIONS[name](xyz=1)


@pytest.mark.parametrize(
    "call", [pb.grouping_rates, pb.diagrams.grouping_diagram, pb.diagrams.loss_budget_diagram]
)
def test_options_that_are_passed_on(call):
    with pytest.raises(TypeError, match=r"has no argument `weights`\. Use `sample_weight`\."):
        call([0, 1], [0.2, 0.7], [[1.0], [2.0]], weights=[1, 2])


def test_the_signature_and_the_docstring_remain():
    assert list(inspect.signature(pb.log_score).parameters)[:3] == [
        "y_true",
        "y_proba",
        "normalize",
    ]
    assert "from_logits" in (pb.log_score.__doc__ or "")


def test_synonyms_name_an_argument_of_some_function():
    known = {name for f in FUNCTIONS.values() for name in inspect.signature(f).parameters}
    known |= set(pb.log_score.__doc__.replace(",", " ").split())  # the options of rows
    assert all(line & known for line in SYNONYMS)
    assert set(COLUMNS) <= set(ReadOptions.__annotations__)


def test_the_first_line_that_fits_is_proposed():
    def call(*, columns=None, regions=None):
        return columns, regions

    with pytest.raises(TypeError, match=r"Use `columns`\."):
        with_known_keywords(call)(groups=1)
