"""Reads about the whole, for people: the admin, the commands, metrics. Only ``many`` writes."""
