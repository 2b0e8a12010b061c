"""Compiled loops over rows. They know arrays and integers only; `states` gives these their meaning.

Arrays that belong together are passed as one NamedTuple, which numba unpacks at no cost. An array
that may be missing must reach a function as a parameter of its own before it is compared with None:
numba removes the other branch only then. A kernel that is called from Python is a
`compiling.kernel`, a helper of other kernels is a `compiling.inline`. The folder stays flat: the
cache of compiled code is stamped with the source of `kernels/*.py`.
"""
