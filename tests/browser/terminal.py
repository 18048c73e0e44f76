"""A picture of a terminal: the commands that somebody types by ssh, and what they print."""

import re
from collections.abc import Iterable
from io import StringIO
from xml.sax.saxutils import escape, unescape

from django.core.management import call_command
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 100
# Dark in both themes of the site, as most terminals are.
THEME = TerminalTheme((22, 27, 34), (222, 228, 234), [(110, 118, 129)] * 8, [(222, 228, 234)] * 8)
# Rich's own has fonts from another host.
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{width}} {{height}}" \
width="{{width}}" role="img">
  <title>{title}</title>
  <style>
    text {{{{ white-space: pre; font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; }}}}
    text {{{{ font-size: {{char_height}}px; }}}}
    {{styles}}
  </style>
  <defs>
    {{lines}}
  </defs>
  <rect width="{{width}}" height="{{height}}" rx="8" fill="#161b22"/>
  <g transform="translate(12, 20)">
    {{matrix}}
  </g>
</svg>
"""


def typed(*words: str) -> str:
    """A command and its output as a terminal shows them."""
    out = StringIO()
    call_command(*words, stdout=out, no_color=True)
    return f"$ python manage.py {' '.join(words)}\n{out.getvalue().rstrip()}\n"


def words(picture: str) -> list[str]:
    """The lines of text in a picture."""
    return [unescape(line, {"&#160;": " "}) for line in re.findall(r">([^<]+)</text>", picture)]


def drawn(shown: Iterable[str], title: str, name: str) -> str:
    """A picture; its ``title`` is for those who cannot see it."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), legacy_windows=False)
    console.print(Text("\n".join(shown).rstrip()), overflow="fold")
    return console.export_svg(
        theme=THEME,
        code_format=FORMAT.format(title=escape(title)),
        unique_id=name,
        font_aspect_ratio=0.605,
    )
