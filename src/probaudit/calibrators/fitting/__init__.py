"""Fits whose gradients are sums over rows."""
