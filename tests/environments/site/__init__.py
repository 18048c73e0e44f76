"""A small site whose processes run a worker, too: for real web servers."""
