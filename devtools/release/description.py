"""The long description: README.rst without links that lead nowhere on the page of an index.

On a forge the links of the README are relative. On an index there is nothing beside it: they become
absolute, or plain words while the addresses of the project are not known.
"""

import re

from devtools.release.addresses import Addresses

# `Words <target>`_, and the same with two underscores; the words may go on in the next line.
_LINK = re.compile(r"`(?P<words>[^`<>]+?)\s+<(?P<target>[^`<>\s]+)>`__?")

# A picture with its options, which are indented.
_PICTURE = re.compile(
    r"^(?P<begin>\.\. (?:image|figure):: +)(?P<target>\S+)(?P<options>(?:\n +:.*)*)\n", re.MULTILINE
)

_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)


def for_index(text: str, addresses: Addresses, version: str) -> str:
    """Return the text for the page of an index."""

    def link(found: re.Match[str]) -> str:
        target = _absolute(found["target"], addresses, version)
        if target == found["target"]:
            return found[0]
        return f"`{found['words']} <{target}>`__" if target else found["words"]

    def picture(found: re.Match[str]) -> str:
        target = found["target"]
        if not _ABSOLUTE.match(target):
            target = _file(target, addresses, version, "raw")
        return f"{found['begin']}{target}{found['options']}\n" if target else ""

    return _PICTURE.sub(picture, _LINK.sub(link, text))


def _absolute(target: str, addresses: Addresses, version: str) -> str:
    """Return where a relative target leads; nothing if that is not known."""
    if _ABSOLUTE.match(target):
        return target
    page = re.fullmatch(r"docs/(.+)\.rst(#.*)?", target)
    if page and addresses.documentation:
        return f"{addresses.documentation}/{page[1]}.html{page[2] or ''}"
    return _file(target, addresses, version, "blob")


def _file(target: str, addresses: Addresses, version: str, kind: str) -> str:
    if not addresses.repository:
        return ""
    return f"{addresses.repository}/{kind}/v{version}/{target}"
