"""Where blocks come from and where states are merged."""
