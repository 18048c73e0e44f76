"""One worker: it runs the tasks of a database in a process.

Its poller thread owns the bookkeeping (heartbeat, claim, finish, rescue) and the only connection
that does it; the executor's threads run handlers. Three return values carry control: a cycle of
the poller returns how long to sleep, a run returns its outcome, a finish returns what was lost.
"""
