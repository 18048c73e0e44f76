"""The only room with statements that write tasks: a file for each verb.

Everything here takes ``using``, a database alias, and the time as aware UTC, and says what it did
by what it returns. The way of a task: ``upsert`` → ``claim`` → ``finish``; beside it ``steer`` for
what clients do, ``rescue`` for what dead workers leave.
"""
