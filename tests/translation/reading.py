"""The words of a page that are not Chinese."""

import re
from html.parser import HTMLParser

# Parts of a page in which texts stand that are shown as they are: payloads, errors, schedules.
AS_THEY_ARE = ("pre", "code", "textarea", "script", "style")
# Attributes that are read, or read out.
READ = ("alt", "aria-label", "data-failed", "data-label", "data-name", "placeholder", "title")

# Names, formats and units that are the same in every language.
NAMES = {"anna", "boss", "django", "id", "json", "p50", "p99", "mb", "gb", "url"}
EXAMPLES = re.compile(
    r"“(?:every|cron) [^”]*”|manage\.py starttask|ConnectionError|\d+/[smhd]\b|[smhd](?=[、。， ])"
)
# A word of English: two letters at least, as it would stand in a sentence.
WORD = re.compile(r"(?<![\w./:@_-])[A-Za-z][a-z]+(?![\w/:@_-]|\.\w)")


# Elements that stand within a line.
INLINE = ("a", "b", "em", "small", "span", "strong")


class Reading(HTMLParser):
    """The texts of a page as people see them, or hear them: each by itself, and by lines."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.lines: list[str] = [""]
        self._shut: list[str] = []
        self.feed(body)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in AS_THEY_ARE:
            self._shut.append(tag)
        if tag not in INLINE:
            self.lines.append("")
        given = dict(attrs)
        self.texts += [text for name in READ if (text := given.get(name))]
        if tag == "input" and given.get("type") in ("submit", "button"):
            self.texts.append(given.get("value") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self.lines.append("")
        if tag in AS_THEY_ARE and tag in self._shut:
            self._shut.remove(tag)

    def handle_data(self, data: str) -> None:
        if self._shut:
            return
        self.lines[-1] += data
        if text := " ".join(data.split()):
            self.texts.append(text)


def english(body: str, known: frozenset[str]) -> list[str]:
    """Texts of a page with an English word in them; ``known`` are values of its rows."""
    texts = dict.fromkeys(Reading(body).texts)
    return [text for text in texts if _words(_without(text, known))]


def _without(text: str, known: frozenset[str]) -> str:
    """The text without what the rows have in it, the longest first."""
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, " ")
    return EXAMPLES.sub(" ", text)


def _words(text: str) -> list[str]:
    return [word for word in WORD.findall(text) if word.lower() not in NAMES]
