"""The progress of a long command: a bar of tqdm if that is installed, else a line now and then."""

import sys
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

EVERY = 5000
NO_TQDM = _(
    "There is no progress bar without tqdm (pip install "
    "'django-delayed-tasks[progress]'): a line comes now and then."
)


def tqdm_class() -> Any | None:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm


class Progress:
    """``advance`` by what has been done; used as a context. ``say`` writes one line."""

    def __init__(
        self, total: int | None, say: Callable[[str], None], *, is_wanted: bool, is_quiet: bool
    ) -> None:
        """``is_wanted``: somebody has asked for a bar. ``is_quiet``: nothing is to be said."""
        self._total = total
        self._say = say
        self._done = 0
        self._is_quiet = is_quiet
        self._bar: Any = None
        if not is_quiet and (is_wanted or _is_terminal()):
            tqdm = tqdm_class()
            if tqdm is not None:
                self._bar = tqdm(total=total, unit=gettext(" tasks"), file=sys.stderr, leave=False)
            elif is_wanted:
                say(str(NO_TQDM))

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, count: int) -> None:
        before, self._done = self._done, self._done + count
        if self._bar is not None:
            self._bar.update(count)
        elif not self._is_quiet and self._done // EVERY > before // EVERY:
            if self._total is None:
                text, total = gettext("%(done)s tasks"), 0
            else:
                text, total = gettext("%(done)s of %(total)s tasks"), self._total
            self._say(text % {"done": f"{self._done:,}", "total": f"{total:,}"})


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
