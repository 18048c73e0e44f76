"""Django's view of the simulated database."""
