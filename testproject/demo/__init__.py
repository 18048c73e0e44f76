"""What scripts/demo runs: the test project on a database of its own, telling what happens."""
