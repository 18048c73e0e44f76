"""Values that client, store and worker hand to each other. Frozen; they know no database."""
