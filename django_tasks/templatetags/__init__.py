"""Filters of our own templates."""
