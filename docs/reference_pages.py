"""Parts of the site that come from the code: command line, API, glossary, and docstrings as RST.

`conf.py` writes the parts into `docs/generated/` when the site is built; pages include them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import typer

import probaudit as pb
from probaudit.audits.repairs import title_of
from probaudit.calibrators.registry import ENTRIES
from probaudit.cli.commands import PANELS, app
from probaudit.report.audit_page import TIPS
from probaudit.report.threshold_words import Acting, Answering

# Packages with public names, in the order of the API page.
PACKAGES = {
    "audits": "Audits and states",
    "comparisons": "Comparing models",
    "scoring": "Scores, decisions and selective prediction",
    "calibration": "Calibration errors and tests",
    "choices": "Choices: scores, lenses, selections, partitions, distances",
    "calibrators": "Repair",
    "grouping": "Hidden groups",
    "monitoring": "Monitoring",
    "files": "Reading files",
    "engines": "Larger than memory",
    "models": "From models",
    "data": "Rows",
    "estimate": "Results",
    "errors": "Errors",
}
MODULES = ("calibrators", "diagrams", "simulate", "training")


def package_of(value: object) -> str:
    """The package, or root module, that defines a public object."""
    return inspect.getmodule(value).__name__.split(".")[1]  # type: ignore[union-attr]


def api() -> dict[str, str]:
    """A page of reStructuredText for each package with public names and each public module."""
    public = {name: getattr(pb, name) for name in pb.__all__ if name != "__version__"}
    pages = {}
    for package, title in PACKAGES.items():
        names = [
            name
            for name, value in public.items()
            if not isinstance(value, ModuleType) and package_of(value) == package
        ]
        pages[package] = _api_page(title, "probaudit", names)
    for module in MODULES:
        content = public[module]
        names = [name for name in dir(content) if _is_public(content, name, module)]
        pages[f"module-{module}"] = _api_page(
            f"probaudit.{module}", f"probaudit.{module}", sorted(names)
        )
    return pages


def _is_public(content: ModuleType, name: str, module: str) -> bool:
    """Whether a name of a module is its own function or class, and can be imported here: without
    torch, its losses and networks are left out."""
    if name.startswith("_"):
        return False
    try:
        value = getattr(content, name)
    except ImportError:
        return False
    home = getattr(value, "__module__", None) or ""
    return callable(value) and home.startswith(f"probaudit.{module}")


def _api_page(title: str, module: str, names: list[str]) -> str:
    lines = [title, "=" * len(title), "", f".. currentmodule:: {module}", ""]
    source = getattr(pb, module.partition(".")[2], pb)
    for name in sorted(names, key=str.lower):
        value = getattr(source, name)
        if inspect.isclass(value):
            lines += [f".. autoclass:: {name}", "   :members:", ""]
        else:
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join(lines)


def command_line() -> str:
    """All commands with their arguments and options, from the Typer app, as Markdown."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    parts = []
    for panel, functions in PANELS.items():
        parts.append(f"## {panel}\n")
        for function in functions:
            name = function.__name__.replace("_", "-")
            command = commands[name]
            parts += [f"(probaudit-{name})=\n### probaudit {name}\n", f"{_shell(command.help)}\n"]
            panels: dict[str, list[str]] = {}
            for parameter in command.params:
                heading = getattr(parameter, "rich_help_panel", None) or "Arguments and options"
                if row := _parameter_row(parameter):
                    panels.setdefault(heading, []).append(row)
            for heading, rows in panels.items():
                parts += [f"| {heading} | |\n|---|---|", *rows, ""]
    return "\n".join(parts)


def _parameter_row(parameter: object) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]  # type: ignore[attr-defined]
    if "--help" in names or getattr(parameter, "hidden", False):
        return ""
    shown = ", ".join(f"`{name}`" for name in names)
    words = _shell(getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    default = getattr(parameter, "show_default", None)
    default = default if isinstance(default, str) else getattr(parameter, "default", None)
    if isinstance(default, str | int | float) and not isinstance(default, bool) and default != "":
        words += f" (default: {default})"
    return f"| {shown} | {words} |"


def _shell(text: str) -> str:
    """Help text as Markdown: stars and options are kept as they are."""
    text = re.sub(r"(?<![`\w-])(--?[a-z][\w-]*)", r"`\1`", text)
    return re.sub(r"(?<!`)([*<>])", r"\\\1", text)


def glossary() -> str:
    """The tooltips of the report, and what each calibrator does, as definition lists."""
    tips = dict(TIPS) | dict(Acting.tips) | dict(Answering.tips)
    methods = {title_of(m.name): m.gloss for entry in ENTRIES for m in entry.methods}
    parts = ["## Words of the report\n", *_definitions(tips)]
    parts += ["## Calibrators\n", *_definitions(methods)]
    return "\n".join(parts)


def _definitions(words: dict[str, str]) -> Iterator[str]:
    for word, meaning in sorted(words.items(), key=lambda item: item[0].lower()):
        yield f"**{word}**\n: {meaning[0].upper()}{meaning[1:]}.\n"


DEFINITION = re.compile(r"^ *([*\w][\w*, ]*?) : (.*)$")
ANY_INDENT = 100


ROW_OPTIONS = "Options for the rows:"


def row_options() -> str:
    """The options that all functions of rows share, as a page of reStructuredText."""
    text = inspect.cleandoc(pb.brier_score.__doc__ or "")
    listed = text.partition(ROW_OPTIONS)[2].partition(">>>")[0]
    lines = as_rst(inspect.cleandoc(listed).split("\n"))
    title = "Options for rows"
    return "\n".join([".. _row-options:", "", title, "=" * len(title), "", *lines, ""])


def with_linked_options(lines: list[str]) -> list[str]:
    """A docstring with a link in place of the options that all functions of rows share."""
    if ROW_OPTIONS not in lines:
        return as_rst(lines)
    start = lines.index(ROW_OPTIONS)
    examples = [k for k in range(start, len(lines)) if lines[k].startswith(">>>")]
    link = "Further options: :ref:`those for rows <row-options>`."
    return [*as_rst(lines[:start]), link, "", *lines[examples[0] if examples else len(lines) :]]


def as_rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: lines `name : meaning` become definitions, code in single
    backticks becomes literal, and examples stay as they are.

    >>> as_rst(["Adds `x`.", "", "x : a *number*,", "    or two"])
    ['Adds ``x``.', '', '', 'x', '    a \\\\*number\\\\*,', '    or two']
    """
    out: list[str] = []
    in_example, within = False, ANY_INDENT
    for line in _literal(lines):
        found = DEFINITION.match(line)
        indent = len(line) - len(line.lstrip())
        before = out[-1] if out else ""
        if not line.strip():
            in_example, within = False, ANY_INDENT
        starts_example = line.lstrip().startswith(">>>") and not in_example
        in_example |= starts_example
        if in_example or not found or indent > within:
            if (starts_example or _starts_list(line, before)) and before.strip():
                out.append("")
            out.append(line)
            continue
        name, meaning = found.groups()
        within = indent
        out += ["", " " * indent + name, " " * (indent + 4) + meaning]
    return out


def _starts_list(line: str, before: str) -> bool:
    """Whether a list begins at a line; reStructuredText needs an empty line before it."""
    bullet = re.match(r" *- ", line)
    same = len(before) - len(before.lstrip()) == len(line) - len(line.lstrip())
    return bool(bullet) and same and not before.lstrip().startswith("- ")


def escaped(text: str) -> str:
    """Text whose characters have no meaning in reStructuredText.

    >>> escaped("fit_ 2*3")
    'fit\\\\_ 2\\\\*3'
    """
    return re.sub(r"([*|\\])|(?<=\w)_(?!\w)", lambda found: "\\" + found[0], text)


def _literal(lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    parts = re.split(r"((?:^[ ]*>>>.*\n?(?:^(?![ ]*$).*\n?)*))", text, flags=re.MULTILINE)
    for k in range(0, len(parts), 2):
        pieces = re.split(r"(`[^`]+`)", parts[k])
        for j, piece in enumerate(pieces):
            if j % 2:
                pieces[j] = f"`{piece}`"
            else:
                pieces[j] = escaped(piece)
        parts[k] = "".join(pieces)
    return "".join(parts).split("\n")


def write(folder: Path) -> None:
    """Write all parts; a part that has not changed keeps its time, so that nothing is rebuilt."""
    parts = {"options.md": command_line(), "glossary.md": glossary()}
    parts["api/rows.rst"] = row_options()
    parts |= {f"api/{name}.rst": page for name, page in api().items()}
    for name, text in parts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
