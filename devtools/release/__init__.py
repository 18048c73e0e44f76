"""Distributions for an index, and what must hold before they are published."""
