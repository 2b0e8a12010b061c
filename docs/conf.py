"""The site. `make docs` builds it without a network; every warning is an error."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference_pages  # noqa: E402
from gallery_pictures import Diagrams, EmbeddedReports  # noqa: E402

import probaudit  # noqa: E402

project = "probaudit"
author = "probaudit developers"
copyright = author
release = version = probaudit.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["build", "generated/*.md", "gallery", "**/README.rst", "sg_execution_times.rst"]
suppress_warnings = ["config.cache", "myst.header"]
nitpick_ignore_regex = [("py:.*", ".*")]  # signatures name types of other packages

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "probaudit"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["generated/extra"]
html_sidebars = {"index": [], "start": [], "choose": []}
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 8,
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
sphinx_gallery_conf = {
    "examples_dirs": ["gallery/fields", "gallery/concepts"],
    "gallery_dirs": ["fields", "concepts"],
    "image_scrapers": ("matplotlib", Diagrams(), EmbeddedReports()),
    "ignore_repr_types": r"probaudit\.diagrams|matplotlib|'str'|'list'",
    "filename_pattern": "",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_", "__repr__"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "plot_gallery": True,
    "remove_config_comments": True,
    "write_computation_times": False,
    "show_signature": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def setup(app: Any) -> None:
    def to_rst(_app: Any, _what: str, _name: str, _value: Any, _options: Any, lines: Any) -> None:
        lines[:] = reference_pages.with_linked_options(lines)

    def skip(_app: Any, _what: str, name: str, *_: Any) -> bool | None:
        """Skip the methods that scikit-learn adds to every estimator."""
        return True if name.startswith("set_") and name.endswith("_request") else None

    def give_code_room(app: Any, _tree: Any) -> None:
        name = app.env.docname
        if name.startswith(("fields/", "concepts/")):
            app.env.metadata[name]["html_theme.sidebar_secondary.remove"] = "true"

    (HERE / "generated" / "extra").mkdir(parents=True, exist_ok=True)
    reference_pages.write(HERE / "generated")
    app.connect("doctree-read", give_code_room)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", to_rst)
