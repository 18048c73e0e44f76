"""gunicorn's hooks, as the guide has them, for the tests that want them."""

import os
from typing import Any

# It would be in the home of whoever runs the tests; older versions have none.
control_socket_disable = True

if os.environ["SITE_START"] == "in hooks":

    def post_worker_init(worker: Any) -> None:
        from django_tasks.api import start

        start(threads=2)

    def worker_exit(server: Any, worker: Any) -> None:
        from django_tasks.api import shutdown

        shutdown(timeout=20)
