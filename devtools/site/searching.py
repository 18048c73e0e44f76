"""The search in Chinese: jieba tells words apart, and Sphinx takes it where it is installed."""

from sphinx.application import Sphinx
from sphinx.search.zh import SearchChinese


class Chinese(SearchChinese):
    """As Sphinx's own. Its pages have the English stemmer; Sphinx 9.0 asks for a Chinese one."""

    language_name = "English"


def setup(app: Sphinx) -> None:
    app.add_search_language(Chinese)
