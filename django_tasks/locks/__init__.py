"""Named locks with a lease: a neighbour of the tasks, which know nothing of it."""
