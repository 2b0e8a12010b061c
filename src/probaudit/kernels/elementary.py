"""exp and log that the compiler can vectorise and that give the same bits on every machine.

A call to the C library blocks vectorisation, and its last bit depends on the library's version.
These are plain arithmetic, without fused operations. The coefficients interpolate the functions at
Chebyshev nodes (computed to 200 bits). Measured error: below 2 units in the last place (see
tests/kernels/test_elementary.py).
"""

from __future__ import annotations

import numpy as np

from .compiling import inline

LN2_HIGH = np.float64(float.fromhex("0x1.62e42fee00000p-1"))
LN2_LOW = np.float64(1.9082149292705877e-10)
LOG2_E = np.float64(1.4426950408889634)
# 1.5 * 2^52: adding it rounds to an integer held in the low bits
ROUND = np.float64(6755399441055744.0)
ROUND_BITS = np.int64(0x4338000000000000)
SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
ONE_BITS = np.int64(0x3FF0000000000000)
MANTISSA = np.int64(0x000FFFFFFFFFFFFF)
SMALLEST_NORMAL = np.float64(2.2250738585072014e-308)
LOWEST = np.float64(-708.0)


@inline
def exp(x: float) -> float:
    """e^x for x <= 0, and 0 below -708 (where the result would be subnormal).

    x = k ln 2 + r, e^x = 2^k e^r, and e^r = 1 + r + r^2 q(r) on |r| <= ln 2 / 2.
    """
    value = exp_above_lowest(x if x > LOWEST else LOWEST)
    return value if x > LOWEST else 0.0


@inline
def exp_above_lowest(x: float) -> float:
    """The same for x from LOWEST to 0; takes arrays in Python."""
    shifted = np.float64(x * LOG2_E + ROUND)
    k = shifted - ROUND
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    q = 2.510038549551032e-08
    q = q * r + 2.7620088445409746e-07
    q = q * r + 2.7557268459997064e-06
    q = q * r + 2.4801521295954376e-05
    q = q * r + 0.00019841269863053618
    q = q * r + 0.0013888888917213717
    q = q * r + 0.008333333333330062
    q = q * r + 0.04166666666662413
    q = q * r + 0.16666666666666669
    q = q * r + 0.5000000000000001
    fraction = 1.0 + (r + r * r * q)
    exponent = (shifted.view(np.int64) - ROUND_BITS + np.int64(1023)) << np.int64(52)
    return fraction * np.int64(exponent).view(np.float64)


@inline
def log(x: float) -> float:
    """The natural logarithm of a positive finite x, subnormal numbers included.

    x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); with s = f / (2 + f),
    log(1 + f) = f - s (f - z q(z)), z = s^2.
    """
    scale = 18014398509481984.0 if x < SMALLEST_NORMAL else 1.0  # 2^54
    raised = 54.0 if x < SMALLEST_NORMAL else 0.0
    return log_scaled(x, scale, raised)


@inline
def log_scaled(x: float, scale: float, raised: float) -> float:
    """The same for scale = 2^raised, by which x is not subnormal; takes arrays in Python."""
    scaled = np.float64(x * scale)
    # Measuring the exponent from sqrt(1/2) puts the mantissa around 1, so that log is accurate
    # there.
    offset = scaled.view(np.int64) - SQRT_HALF_BITS
    k = offset >> np.int64(52)
    f = np.int64((offset & MANTISSA) + SQRT_HALF_BITS).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    q = 0.14616585424888623
    q = q * z + 0.15331710618210773
    q = q * z + 0.18182889455674947
    q = q * z + 0.22222211130259878
    q = q * z + 0.2857142862600327
    q = q * z + 0.39999999999899444
    q = q * z + 0.666666666666667
    half = 0.5 * f * f
    exponent = (np.int64(k + ROUND_BITS).view(np.float64) - ROUND) - raised
    return exponent * LN2_HIGH - ((half - (s * (half + z * q) + exponent * LN2_LOW)) - f)
