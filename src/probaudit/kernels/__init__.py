"""Compiled loops over rows. They know arrays and integers only; `states` gives these their meaning.

Kernels may take many positional parameters: numba receives arrays one by one, and packing them into
an object costs time in every call. A kernel that is called from Python is a `compiling.kernel`, a
helper of other kernels is a `compiling.inline`. The folder stays flat: the cache of compiled
code is stamped with the source of `kernels/*.py`.
"""
