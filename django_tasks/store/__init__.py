"""The only room with statements that write tasks: a file for each verb.

Everything here takes ``using``, a database alias, and the time as aware UTC, and answers with what
it has done. The way of a task: ``upsert`` → ``lanes`` → ``claim`` → ``finish``; beside it
``control`` for clients, ``rescue`` for the rows of dead workers.
"""
