"""Groups of statuses as SQL, for statements that name them all."""

from django_tasks.values.status import FINISHABLE, Status

# A worker has the row in hand, whatever becomes of it.
OWNED_SQL = f"({Status.RUNNING:d}, {Status.CANCELLING:d}, {Status.PAUSING:d})"
CANCELLING_SQL = f"({Status.CANCELLING:d})"
FINISHABLE_SQL = f"({', '.join(str(int(status)) for status in FINISHABLE)})"
