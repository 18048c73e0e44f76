"""The ``biz_code`` of each function that jobs call."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from django_tasks.importers.found import CannotCome
from django_tasks.sentences import sentence as _


class CodeNames:
    """The ``biz_code`` of a function: as the user says, else its bare name if that is its own."""

    def __init__(self, said: Mapping[str, str], functions: Iterable[str]) -> None:
        self._said = said
        self._namesakes: dict[str, set[str]] = defaultdict(set)
        for function in functions:
            self._namesakes[self._default(function)].add(function)

    def code_of(self, function: str) -> str:
        """The code; CannotCome if other functions would have the same by default."""
        if function in self._said:
            return self._said[function]
        code = self._default(function)
        if others := sorted(self._namesakes[code] - {function}):
            raise CannotCome(
                _(
                    "%(function)s and %(others)s would both be %(code)r: say --code %(function)s=…",
                    function=function,
                    others=others[0],
                    code=code,
                )
            )
        return code

    def _default(self, function: str) -> str:
        return self._said.get(function) or re.split("[:.]", function)[-1]
