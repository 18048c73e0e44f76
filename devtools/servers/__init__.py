"""Private database servers: the program behind ``scripts/servers``."""
