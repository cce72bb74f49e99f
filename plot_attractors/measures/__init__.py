"""Measures of what a model has learned, as pure functions of tensors and arrays."""
