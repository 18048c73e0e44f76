"""Answers to those that watch ``starttask``: is it alive, does it work?

A file, the service manager of systemd and a small HTTP server tell the same judgement.
"""
