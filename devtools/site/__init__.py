"""The documentation as a site: an extension of Sphinx, and the program behind ``make docs``.

The pages are written for a forge, too, which shows them one by one. Hence their links are relative
paths of files, and a picture is named once; here both become what a site can do with them.
"""

from sphinx.application import Sphinx

from devtools.site import languages, links, pictures


def setup(app: Sphinx) -> dict[str, bool]:
    links.setup(app)
    pictures.setup(app)
    languages.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
