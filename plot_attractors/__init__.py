"""Symbols from neural dynamics: attractor models as Pyro programs, and GFlowNet inference
for Pyro.
"""
