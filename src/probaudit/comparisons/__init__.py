"""Several models on the same rows."""
