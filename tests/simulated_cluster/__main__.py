"""``python -m tests.simulated_cluster``: see ``run``."""

import os
import sys

from tests.simulated_cluster.run import main

if os.environ.get("PYTHONHASHSEED") != "0":
    # The order of a set of texts depends on it, and with that the order of statements.
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606
sys.exit(main())
