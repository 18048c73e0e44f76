"""The search in Chinese: jieba tells words apart."""

import logging

import jieba
from sphinx.application import Sphinx
from sphinx.search.zh import SearchChinese


class Chinese(SearchChinese):
    """As Sphinx's own. Its pages have the English stemmer; Sphinx 9.0 asks for a Chinese one."""

    language_name = "English"


def setup(app: Sphinx) -> None:
    app.add_search_language(Chinese)
    app.connect("builder-inited", _tame)


def _tame(app: Sphinx) -> None:
    """Keep jieba's lines out of the build, and its dictionary out of the system's folder."""
    jieba.setLogLevel(logging.WARNING)
    jieba.dt.tmp_dir = str(app.doctreedir)
