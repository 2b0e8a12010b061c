"""The experiments of the five papers that this library implements, recomputed beside the printed
values: `probaudit reproduce`.

A module for each paper has a `PAPER`; to add one, write the module and list it in `papers.MODULES`.
"""
