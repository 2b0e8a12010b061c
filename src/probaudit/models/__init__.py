"""From models to predictions: PyTorch modules, scikit-learn estimators and any callable."""
