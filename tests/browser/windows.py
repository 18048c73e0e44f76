"""Windows in which people look at the admin."""

from typing import NamedTuple


class Look(NamedTuple):
    """The width of a window, and the colours that its owner prefers."""

    width: int
    scheme: str

    @property
    def height(self) -> int:
        return 844 if self.is_narrow else 800

    @property
    def is_narrow(self) -> bool:
        return self.width < 768

    @property
    def is_dark(self) -> bool:
        return self.scheme == "dark"

    @property
    def suffix(self) -> str:
        """The end of the names of its pictures."""
        return ("-narrow" if self.is_narrow else "") + ("-dark" if self.is_dark else "")

    def __str__(self) -> str:
        return f"{self.width} {self.scheme}"


WIDE = Look(1280, "light")
NARROW = Look(390, "light")
WIDE_DARK = Look(1280, "dark")
NARROW_DARK = Look(390, "dark")
LOOKS = (WIDE, WIDE_DARK, NARROW, NARROW_DARK)
