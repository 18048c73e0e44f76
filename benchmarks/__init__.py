"""Speed, lateness and cost: ours beside the raw drivers, the seed design and the neighbours.

``run.py`` starts the servers and has the contenders take turns. ``measure.py`` takes one
measurement of one contender, in a process and an environment of its own. ``report.py`` makes the
page and its pictures of what ``run.py`` wrote down.
"""
