"""The sample shop: what stands in it, users copy."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from django_tasks.api import Task, get_task, get_task_handlers
from testproject.shop import actions, outside
from testproject.shop.models import Message, Order, Partner, Product, Promotion

pytestmark = pytest.mark.django_db


@pytest.fixture
def teapot() -> Product:
    return Product.objects.create(name="Teapot", price=Decimal("39.00"), stock=10)


@pytest.fixture
def kettle() -> Product:
    partner = Partner.objects.create(name="Kettles & Co.", webhook="https://kettles.example/")
    return Product.objects.create(name="Kettle", price="59.00", stock=10, partner=partner)


@pytest.fixture
def spring() -> Promotion:
    return Promotion.objects.create(code="SPRING", percent=20)


@pytest.fixture
def tea() -> Message:
    return Message.objects.create(code="TEA", text="Tea time!", every=timedelta(minutes=30))


@pytest.fixture
def run() -> Callable[..., Any]:
    """Call the handler of a task as a worker does."""

    def run(task: Task | None, attempt: int = 1) -> Any:
        assert task is not None
        running: Any = SimpleNamespace(
            biz_code=task.biz_code, biz_num=task.biz_num, biz_ext=task.biz_ext, attempt=attempt
        )
        answer = get_task_handlers()[task.biz_code].handle(running)
        task.biz_ext = running.biz_ext
        return answer

    return run


def codes() -> set[str]:
    """Of all tasks that wait."""
    return set(Task.objects.values_list("biz_code", flat=True))


def stock(product: Product) -> int:
    return Product.objects.get(pk=product.pk).stock


# Orders


def test_an_order_has_half_an_hour_to_be_paid(teapot: Product) -> None:
    order = actions.place_order(teapot, "tom@example.com", 3)
    task = get_task("shop.cancel_unpaid", order.number)
    assert task is not None
    assert abs(task.when - timezone.now() - timedelta(minutes=30)) < timedelta(minutes=1)
    assert task.biz_ext == {"seconds_to_pay": 1800}
    assert stock(teapot) == 7


def test_an_order_that_is_rolled_back_leaves_no_task(teapot: Product) -> None:
    with transaction.atomic():
        actions.place_order(teapot, "tom@example.com")
        assert codes() == {"shop.cancel_unpaid"}
        transaction.set_rollback(True)
    assert (codes(), Order.objects.count(), stock(teapot)) == (set(), 0, 10)


def test_what_is_not_in_stock_cannot_be_ordered(teapot: Product) -> None:
    with pytest.raises(actions.OutOfStock):
        actions.place_order(teapot, "tom@example.com", 11)
    assert (codes(), Order.objects.count(), stock(teapot)) == (set(), 0, 10)


def test_paying_cancels_the_cancelling_and_sets_off_the_rest(kettle: Product) -> None:
    actions.pay_order(actions.place_order(kettle, "ann@example.com"))
    assert codes() == {"shop.send_invoice", "shop.tell_partner", "shop.ask_for_review"}
    assert Order.objects.get().status == Order.Status.PAID


def test_no_partner_is_told_of_what_the_shop_ships_itself(teapot: Product) -> None:
    actions.pay_order(actions.place_order(teapot, "ann@example.com"))
    assert "shop.tell_partner" not in codes()


def test_a_cancelled_order_cannot_be_paid(teapot: Product, run: Callable[..., Any]) -> None:
    order = actions.place_order(teapot, "tom@example.com")
    run(get_task("shop.cancel_unpaid", order.number))
    with pytest.raises(actions.NotPayable):
        actions.pay_order(order)
    assert codes() == {"shop.cancel_unpaid"}


def test_goods_go_back_into_stock_once_however_often_it_runs(
    teapot: Product, run: Callable[..., Any]
) -> None:
    order = actions.place_order(teapot, "tom@example.com", 3)
    task = get_task("shop.cancel_unpaid", order.number)
    for _ in range(2):
        assert run(task) is None
    assert (Order.objects.get().status, stock(teapot)) == (Order.Status.CANCELLED, 10)


def test_an_order_paid_at_the_last_moment_is_not_cancelled(
    teapot: Product, run: Callable[..., Any]
) -> None:
    order = actions.place_order(teapot, "tom@example.com", 3)
    task = get_task("shop.cancel_unpaid", order.number)
    actions.pay_order(order)
    run(task)
    assert (Order.objects.get().status, stock(teapot)) == (Order.Status.PAID, 7)


# Promotions and messages


def test_a_promotion_ends(spring: Promotion, run: Callable[..., Any]) -> None:
    actions.start_promotion(spring, timezone.now())
    assert Promotion.objects.get().is_active
    assert run(get_task("shop.end_promotion", "SPRING")) is None
    assert not Promotion.objects.get().is_active


def test_prolonging_a_promotion_moves_its_end(spring: Promotion) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    actions.start_promotion(spring, timezone.now())
    actions.start_promotion(spring, tomorrow)
    assert [task.when for task in Task.objects.all()] == [tomorrow]


def test_a_message_is_pushed_until_it_is_stopped(tea: Message, run: Callable[..., Any]) -> None:
    actions.start_pushing(tea)
    task = get_task("shop.push_message", "TEA")
    assert [run(task), run(task)] == [timedelta(minutes=30)] * 2
    assert task is not None
    assert task.biz_ext == {"pushed": 2}
    actions.stop_pushing(tea)
    assert codes() == set()


def test_a_message_that_is_deleted_is_not_pushed_again(
    tea: Message, run: Callable[..., Any]
) -> None:
    actions.start_pushing(tea)
    tea.delete()
    assert run(get_task("shop.push_message", "TEA")) is None


# What is outside


@pytest.mark.parametrize("code", ["shop.send_invoice", "shop.ask_for_review"])
def test_mail_is_sent_at_the_third_attempt(
    code: str, teapot: Product, run: Callable[..., Any]
) -> None:
    order = actions.place_order(teapot, "ann@example.com")
    actions.pay_order(order)
    for attempt in (1, 2):
        with pytest.raises(outside.GatewayBusy):
            run(get_task(code, order.number), attempt)
    assert run(get_task(code, order.number), 3) is None


def test_a_partner_who_is_gone_is_noted(kettle: Product, run: Callable[..., Any]) -> None:
    order = actions.place_order(kettle, "ann@example.com")
    actions.pay_order(order)
    task: Any = get_task("shop.tell_partner", order.number)
    with pytest.raises(outside.WebhookGone) as raised:
        run(task)
    get_task_handlers()["shop.tell_partner"].on_failure(task, raised.value)
    assert Partner.objects.get().unreachable_since is not None


def test_all_that_the_shop_puts_off_has_a_handler(
    kettle: Product, spring: Promotion, tea: Message
) -> None:
    actions.pay_order(actions.place_order(kettle, "ann@example.com"))
    actions.place_order(kettle, "tom@example.com")
    actions.start_promotion(spring, timezone.now())
    actions.start_pushing(tea)
    assert codes() == {code for code in get_task_handlers() if code.startswith("shop.")}


# Pages


def test_a_visitor_orders_and_pays(client: Client, teapot: Product) -> None:
    form = {"product": teapot.pk, "quantity": 2, "customer": "tom@example.com"}
    page = client.post("/", form, follow=True)
    order = Order.objects.get()
    assert page.redirect_chain == [(f"/orders/{order.number}/", 302)]
    assert "It will be cancelled at" in page.content.decode()
    page = client.post(f"/orders/{order.number}/pay/", follow=True)
    assert "2 of Teapot: paid." in page.content.decode()
    page = client.post(f"/orders/{order.number}/pay/", follow=True)
    assert f"Order {order.number} is paid already, or cancelled." in page.content.decode()


def test_a_visitor_is_told_what_is_out_of_stock(client: Client, teapot: Product) -> None:
    form = {"product": teapot.pk, "quantity": 11, "customer": "tom@example.com"}
    page = client.post("/", form)
    assert "There are no 11 of Teapot in stock." in page.content.decode()
    assert codes() == set()


def test_staff_start_and_stop(admin_client: Client, spring: Promotion, tea: Message) -> None:
    answer = admin_client.post("/promotions/SPRING/start/5/").json()
    assert answer["promotion"] == "SPRING"
    assert "20 % off" in admin_client.get("/").content.decode()
    assert admin_client.post("/messages/TEA/start/").json() == {"message": "TEA", "every": 1800}
    assert codes() == {"shop.end_promotion", "shop.push_message"}
    assert admin_client.post("/messages/TEA/stop/").json() == {"message": "TEA", "every": None}
    assert codes() == {"shop.end_promotion"}


@pytest.mark.parametrize(
    "address", ["/promotions/SPRING/start/5/", "/messages/TEA/start/", "/messages/TEA/stop/"]
)
def test_visitors_start_and_stop_nothing(
    client: Client, spring: Promotion, tea: Message, address: str
) -> None:
    assert client.post(address).headers["Location"].startswith("/admin/login/")
    assert client.get(address).status_code == 405
    assert codes() == set()


@pytest.mark.parametrize("model", ["message", "order", "partner", "product", "promotion"])
def test_the_admin_shows_everything(
    admin_client: Client, kettle: Product, spring: Promotion, tea: Message, model: str
) -> None:
    actions.place_order(kettle, "tom@example.com")
    page = admin_client.get(f"/admin/shop/{model}/")
    assert f"1 {model}" in page.content.decode()
