"""Saved calibrators: JSON and ONNX."""
