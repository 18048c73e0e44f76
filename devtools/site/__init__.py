"""The documentation as a site: an extension of Sphinx, and the program behind ``make docs``.

The pages are written for a forge, too, which shows them one by one. Hence their links are relative
paths of files, a picture is named once, and a long page begins with its contents; here they become
what a site can do with them.
"""

from sphinx.application import Sphinx

from devtools.site import contents, keyboard, languages, links, names, pictures, searching


def setup(app: Sphinx) -> dict[str, bool]:
    contents.setup(app)
    links.setup(app)
    pictures.setup(app)
    languages.setup(app)
    keyboard.setup(app)
    searching.setup(app)
    names.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
