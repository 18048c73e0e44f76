"""Somebody who sits before the admin: a window of one size and colour, and all that goes wrong in
it.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response

from tests.browser.windows import WIDE, Look

PATIENCE_MS = 15_000  # for what must appear; a machine that runs tests is slow at times

# A browser says nothing about a style that it leaves out quietly; this is said to each of us.
_TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => console.error(
    `Content-Security-Policy: ${event.violatedDirective}, ${event.blockedURI} ${event.sample}`
));
"""


class Person:
    """One window of a browser. ``troubles`` is what nobody must ever see."""

    def __init__(
        self, browser: Browser, server: str, look: Look = WIDE, language: str = "en-GB"
    ) -> None:
        self.server = server
        self.troubles: list[str] = []
        self._context = browser.new_context(
            base_url=server,
            has_touch=look.is_narrow,
            locale=language,
            timezone_id=settings.TIME_ZONE,
            reduced_motion="reduce",
        )
        self._context.set_default_timeout(PATIENCE_MS)
        self._context.add_init_script(_TELL_VIOLATIONS)
        self.page = self._context.new_page()
        self._watch(self.page)
        self.sits_before(look)

    def sits_before(self, look: Look) -> None:
        """Change the window, with the page in it."""
        self.page.set_viewport_size({"width": look.width, "height": look.height})
        self.page.emulate_media(color_scheme="dark" if look.is_dark else "light")
        # Colours change by and by: a judge would see some between light and dark.
        self.page.evaluate("document.getAnimations().forEach((each) => each.finish())")

    def is_known_as(self, user: User) -> "Person":
        """Be logged in already, without the form."""
        client = Client()
        client.force_login(user)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        self._context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": self.server}])
        return self

    def opens(self, name: str, *args: Any, **query: Any) -> Page:
        """Open a page of the admin by the name of its URL."""
        address = reverse(f"admin:{name}", args=args)
        self.page.goto(f"{address}?{urlencode(query)}" if query else address)
        return self.page

    def reads(self) -> str:
        """The text of the page as it is seen."""
        return " ".join(self.page.locator("body").inner_text().split())

    def draws(self, path: Path, part: str) -> None:
        """Keep what the window shows from a part on, the same each time."""
        if part:
            self.page.locator(f"#{part}").evaluate("(element) => element.scrollIntoView()")
        self.page.screenshot(path=path, animations="disabled", caret="hide")

    def leaves(self) -> None:
        self._context.close()

    def _watch(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self._trouble(f"a script failed: {error}"))
        page.on("request", self._asked)
        page.on("response", self._answered)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not is_icon(message.location["url"]):
            self._trouble(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((f"{self.server}/", "data:")):
            self._trouble(f"a request to elsewhere: {request.url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and not is_icon(response.url):
            self._trouble(f"{response.status} for {response.url}")

    def _trouble(self, sentence: str) -> None:
        self.troubles.append(f"{sentence} (on {self.page.url.removeprefix(self.server)})")


def is_icon(address: str) -> bool:
    """Tell if a browser asks this by itself, once, of every site."""
    return address.endswith("/favicon.ico")
