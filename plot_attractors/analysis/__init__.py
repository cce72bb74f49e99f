"""What analyses draw from trained models, and what they measure of it."""
