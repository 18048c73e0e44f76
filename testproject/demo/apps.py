import fcntl
import os
import select
import signal
from threading import Thread

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "testproject.demo"

    def ready(self) -> None:
        from testproject.demo import narrator  # here, because it needs the models

        narrator.connect()
        if process := os.environ.get("DEMO_PROCESS"):
            share_the_lock()
            Thread(target=stop_with_the_demo, args=(int(process),), daemon=True).start()


def share_the_lock() -> None:
    """Hold the lock of the demo until this process ends, also after the demo was killed."""
    from testproject.demo.play import LOG

    log = os.open(LOG, os.O_RDONLY)  # open until the end
    fcntl.flock(log, fcntl.LOCK_SH)


def stop_with_the_demo(process: int) -> None:
    """Stop this process when that of the demo has ended, however that was."""
    try:
        end = os.pidfd_open(process)
    except ProcessLookupError:
        pass
    else:
        select.select([end], [], [])
    os.kill(os.getpid(), signal.SIGTERM)
