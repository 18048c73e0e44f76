"""Settings of Sphinx: the documentation as a site. ``make docs`` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from devtools.release import addresses
from django_tasks import __version__

project = "django-delayed-tasks"
project_copyright = "the authors of django-delayed-tasks"
version = release = __version__
language = "en"

extensions = ["sphinx_copybutton", "devtools.site"]
exclude_patterns = ["_build", "locale", "static", "templates"]
nitpicky = True

# The address under which a forge shows the files of the repository. As long as there is none, files
# are downloads of the site.
repository = addresses.read().repository
source_url = f"{repository}/blob/main" if repository else ""
# Files beside docs/ that pages link to, and the pages that the site has for them.
pages_elsewhere = {
    "README.rst": "index",
    "CHANGES.rst": "changes",
    "CONTRIBUTING.rst": "contributing",
}

# Each page has a catalogue of its own. Its messages stand in the order of the page, without line
# numbers: these change with each edit.
locale_dirs = ["locale"]
gettext_compact = False
gettext_location = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_title = f"{project} {release}"
html_copy_source = False
html_show_sphinx = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
