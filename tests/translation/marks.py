"""Marks and spaces that Chinese text does not have: the rules of docs/glossary-zh-hans.rst."""

import re

CHINESE = r"[\u3400-\u9fff]"
# Between the words of two scripts stands a space, as in Django's own catalogue.
TOUCHING = re.compile(rf"{CHINESE}[A-Za-z0-9]|[A-Za-z0-9]{CHINESE}")
# Of half width, beside a Chinese character, or before it with a blank as in English.
HALF_WIDTH = re.compile(rf"{CHINESE}[,.;:?!()]|[,;:?!(] ?{CHINESE}|[\"']{CHINESE}|{CHINESE}[\"']")
# A space between two Chinese characters, or beside a mark of full width.
LOOSE = re.compile(rf"{CHINESE} {CHINESE}|[，。；：？！（）、] | [，。；：？！（）、]")

RULES = {"touching": TOUCHING, "half": HALF_WIDTH, "loose": LOOSE}
