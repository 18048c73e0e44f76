"""Settings with the recipe for JSON of docs/how-to/logs.rst, and a handler that logs."""

import logging
import re
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

from django_tasks.handlers.base import TaskHandler
from tests.integration.settings import *  # noqa: F403

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "logs.rst"
TASK_HANDLERS = ["tests.integration.json_logging.Talk"]


def recipe() -> str:
    """The settings under the heading "JSON", as they stand in the page."""
    text = PAGE.read_text()
    under = text[text.index("\nJSON\n====") :]
    found = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", under)
    assert found is not None
    return dedent(found[1])


exec(recipe())  # noqa: S102 - our own page


class Talk(TaskHandler):
    biz_code = "talk"
    max_attempts = 2
    backoff = timedelta(seconds=0)

    def handle(self, task: Any) -> None:
        logging.getLogger("shop.orders").info("asking the bank 招商银行")
        if task.biz_num == "bad":
            raise ConnectionError("the bank does not answer")
