"""Figures: tables in, a figure out."""
