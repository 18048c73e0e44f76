"""The admin as people see it: a real browser, a real server, real rows.

Run by ``make browser``. Every page is served with a strict Content-Security-Policy, and a test
fails at anything that the browser complains of.
"""
