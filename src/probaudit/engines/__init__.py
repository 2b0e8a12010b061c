"""Engines: passes over rows in memory, in files (stream) and on a cluster (Dask)."""
