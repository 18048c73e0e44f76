"""Run a command that is always ended by SIGINT, as by Ctrl-C: pytest then ends what tests started.

    python -m devtools.gently COMMAND...

nox ends sessions that run side by side with SIGTERM, which would leave those processes behind.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from devtools.interruption import heed_ctrl_c, leave_by_cleaning_up

END_SECONDS = 20.0


def main(command: list[str]) -> int:
    leave_by_cleaning_up()
    # In a session of its own, where no signal to all of us reaches it.
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=heed_ctrl_c)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # To all of its group, as a terminal sends it: the processes that play faults clean up
        # themselves, and would not hear of it otherwise.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
