"""The program of scripts/demo: the test project on a database of its own, telling what happens."""
