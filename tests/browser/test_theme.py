"""The way in, and the colours that somebody chooses."""

from django.contrib.auth.models import User

from tests.browser.conftest import PASSWORD, People
from tests.browser.person import Person

PAINT = "getComputedStyle(document.body).backgroundColor"


def test_anna_logs_in_with_her_password(people: People, anna: User) -> None:
    person = people()
    page = person.opens("index")
    page.get_by_label("Username").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Site administration").wait_for()
    assert "anna" in page.locator("#user-tools").inner_text().lower()


def test_a_chosen_theme_holds_on_the_next_page_whatever_the_system_prefers(desk: Person) -> None:
    page = desk.opens("django_tasks_task_changelist")
    light = page.evaluate(PAINT)
    toggle = page.get_by_role("button", name="Toggle theme")
    toggle.click()  # from "auto" to the one that the system does not prefer
    dark = page.evaluate(PAINT)
    desk.opens("django_tasks_workerrow_changelist")
    assert light != dark
    assert page.evaluate(PAINT) == dark
