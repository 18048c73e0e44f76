"""The environment and the programs of a bare machine: the program behind ``scripts/setup``."""
