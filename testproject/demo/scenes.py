"""The plays of the demo: an hour in the shop, in a few seconds. And what is left to play."""

from datetime import timedelta
from decimal import Decimal

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from django_tasks.api import Status, Task
from testproject.shop import actions
from testproject.shop.models import Message, Partner, Product, Promotion

LOGIN = PASSWORD = "demo"  # noqa: S105  # the server listens on this machine only

WORDS = {
    "shop.send_invoice": "send the invoice, by a busy gateway",
    "shop.tell_partner": "call the partner's dead webhook",
    "shop.push_message": "push a message, again every 3 s",
    "shop.end_promotion": "end the promotion",
    "shop.cancel_unpaid": "cancel the order, unless it is paid",
    "shop.ask_for_review": "ask the customer for a review",
}


def prepare() -> None:
    """Stock the shop and make the login, where that has not been done yet."""
    if not get_user_model().objects.filter(username=LOGIN).exists():
        get_user_model().objects.create_superuser(LOGIN, password=PASSWORD)
    partner, _ = Partner.objects.get_or_create(
        name="Kettles & Co.", defaults={"webhook": "https://kettles.example/orders"}
    )
    for name, price, owner in (("Teapot", "39.00", None), ("Kettle", "59.00", partner)):
        Product.objects.get_or_create(
            name=name, defaults={"price": Decimal(price), "stock": 1000, "partner": owner}
        )
    Promotion.objects.get_or_create(code="SPRING", defaults={"percent": 20})
    Message.objects.get_or_create(
        code="TEA", defaults={"text": "Tea time!", "every": timedelta(seconds=3)}
    )


@transaction.atomic
def play() -> None:
    """Add the tasks, as the shop's own views do; all or none."""
    promotion = Promotion.objects.get(code="SPRING")
    actions.start_promotion(promotion, timezone.now() + timedelta(seconds=5))
    actions.place_order(Product.objects.get(name="Teapot"), "tom@example.com")
    order = actions.place_order(Product.objects.get(name="Kettle"), "ann@example.com")
    actions.pay_order(order)
    actions.start_pushing(Message.objects.get(code="TEA"))


def waiting() -> list[Task]:
    """All tasks that will still run, earliest first."""
    return list(Task.objects.exclude(status=Status.FAILED).order_by("when", "id"))


def failed() -> list[Task]:
    return list(Task.objects.filter(status=Status.FAILED).order_by("id"))


def in_words(task: Task) -> str:
    return WORDS.get(task.biz_code, "")
