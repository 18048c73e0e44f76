"""Places of searches for the tests of claims."""

from django_tasks.store.claim import Share
from django_tasks.store.lanes import Place


class From:
    """Searches that begin at one place, and what they have found."""

    def __init__(self, place: Place | None) -> None:
        self.place = place
        self.notes: list[tuple[Share, Place | None]] = []

    def since(self, share: Share) -> Place | None:
        return self.place

    def note(self, share: Share, first: Place | None) -> None:
        self.notes.append((share, first))
