"""Groups of statuses as SQL, for statements that name them all."""

from django_tasks.values.status import FINISHABLE, Status

# A worker has the row in hand, whatever becomes of it.
OWNED_SQL = f"({Status.RUNNING:d}, {Status.CANCELLING:d}, {Status.PAUSING:d})"
CANCELLING_SQL = f"({Status.CANCELLING:d})"
FINISHABLE_SQL = f"({', '.join(str(int(status)) for status in FINISHABLE)})"

# The status of rows that a statement finds by their ids. In this form no planner can search by it.
# By status it would walk the entries of all rows that had it before, and those that a snapshot
# keeps from being cleaned up: for 100 ids behind 100,000 deleted rows MariaDB took 140 ms instead
# of 0.4, for one claim beside 200,000 waiting rows SQLite took 115 ms. MariaDB drops a mere plus.
STATUS_OF_FOUND = "status + 0"
