"""The site for ASGI servers: the worker lives as long as the server's lifespan."""

from typing import Any

from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from django_tasks.api import shutdown, start  # noqa: E402 - after Django's setup


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    else:
        await django_application(scope, receive, send)


async def lifespan(receive: Any, send: Any) -> None:
    await receive()  # lifespan.startup
    await sync_to_async(start)(threads=2)
    await send({"type": "lifespan.startup.complete"})
    await receive()  # lifespan.shutdown
    await sync_to_async(shutdown)(timeout=20)
    await send({"type": "lifespan.shutdown.complete"})
