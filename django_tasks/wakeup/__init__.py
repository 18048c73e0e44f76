"""Tell a sleeping worker to look now. Polling finds every task without it, only later.

``wake`` is for those who have added a task. A worker hears of it by ``local`` (same process), by a
``doorbell`` (another process) or by ``postgres`` (NOTIFY); ``listening`` is its thread for that.
"""
