"""Faults between us and a real broker: tasks that are handed to real Celery workers."""
