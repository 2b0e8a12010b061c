"""Calibrators as files: JSON and ONNX."""
