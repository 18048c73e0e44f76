"""Handing due tasks to other engines."""
