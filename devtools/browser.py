"""The browser that the tests of the admin's pages drive."""

import shutil

# As Debian, Ubuntu and others call it. Ubuntu's own is a snap, which may refuse to start as root.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The path of the browser on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def why_no_browser() -> str:
    """The reason why there are no tests in a browser; nothing if there are."""
    return "" if chromium() else "not installed: chromium"
