"""The experiments of the five papers that this library implements, recomputed beside the printed
values: `probaudit reproduce`.

A module for each paper has a `PAPER`; to add one, write the module and list it in `papers.MODULES`.
Further modules of a paper, and its file in `printed`, begin with the name of that module: a change
of any of them invalidates stored results of the paper.
"""
