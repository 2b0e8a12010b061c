"""Streams against a reference."""
