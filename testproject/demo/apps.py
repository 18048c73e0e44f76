import os
import signal
from threading import Thread

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "testproject.demo"

    def ready(self) -> None:
        from testproject.demo import narrator  # here, because it needs the models

        narrator.connect()
        if lifeline := os.environ.get("DEMO_LIFELINE"):
            Thread(target=stop_with_the_demo, args=(int(lifeline),), daemon=True).start()


def stop_with_the_demo(lifeline: int) -> None:
    """Stop this process when the demo is gone: the other end of this pipe is closed then."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
