"""Compare a stream of rows with a reference."""
