"""The distributions: what they hold, say, and do where they are installed."""
