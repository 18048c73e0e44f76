"""Facilities of the operating system: clocks, forks, pipes, signals."""
