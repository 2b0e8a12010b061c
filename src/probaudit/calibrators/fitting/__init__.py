"""Fits that need only sums over rows: in memory, in passes over a stream, or on a cluster."""
