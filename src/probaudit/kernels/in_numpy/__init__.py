"""Kernels in plain numpy, with the same bits, for few rows.

They need no compiled code: sums are integers, or floating-point sums in the order of the kernel,
and `exp` and `log` are the same polynomials. A process with little to compute thus neither compiles
nor loads kernels (see twins.py). Each function stands in for the kernel of the same name in the
module of the same name. Tests compare each with the other.
"""
