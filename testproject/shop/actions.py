"""Actions of the shop.

Each function is one transaction: the business data, and the delayed tasks that belong to it, are
written together or not at all.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from django_tasks.api import Task, add_task, cancel_task
from testproject.shop.models import Message, Order, Product, Promotion


class OutOfStock(Exception):
    """There is not as much of the product as was asked for."""


class NotPayable(Exception):
    """The order is paid already, or cancelled."""


@transaction.atomic
def place_order(product: Product, customer: str, quantity: int = 1) -> Order:
    """Take the goods out of stock, and give the customer half an hour to pay."""
    enough = Product.objects.filter(pk=product.pk, stock__gte=quantity)
    if not enough.update(stock=F("stock") - quantity):
        raise OutOfStock(f"There are no {quantity} of {product} in stock.")
    order = Order.objects.create(product=product, customer=customer, quantity=quantity)
    add_task(
        Task(
            biz_code="shop.cancel_unpaid",
            biz_num=order.number,
            when=timezone.now() + settings.SHOP_PAY_WITHIN,
            # What this customer was promised, whatever the setting says by then.
            biz_ext={"seconds_to_pay": settings.SHOP_PAY_WITHIN.total_seconds()},
        )
    )
    return order


@transaction.atomic
def pay_order(order: Order) -> None:
    """Note the payment, and set off everything that follows from it."""
    unpaid = Order.objects.filter(pk=order.pk, status=Order.Status.UNPAID)
    if not unpaid.update(status=Order.Status.PAID):
        raise NotPayable(f"Order {order} is paid already, or cancelled.")
    # If it is running at this very moment, it finds a paid order and leaves it alone.
    cancel_task("shop.cancel_unpaid", order.number)
    settled = timezone.now() + settings.SHOP_SETTLED_AFTER
    add_task(Task(biz_code="shop.send_invoice", biz_num=order.number, when=settled))
    if order.product.partner:
        add_task(Task(biz_code="shop.tell_partner", biz_num=order.number, when=settled))
    in_three_days = timezone.now() + timedelta(days=3)
    add_task(Task(biz_code="shop.ask_for_review", biz_num=order.number, when=in_three_days))


@transaction.atomic
def start_promotion(promotion: Promotion, ends_at: datetime) -> None:
    """Start a promotion, or prolong it: the same key again moves the task that is there."""
    promotion.is_active = True
    promotion.ends_at = ends_at
    promotion.save()
    add_task(Task(biz_code="shop.end_promotion", biz_num=promotion.code, when=ends_at))


def start_pushing(message: Message) -> None:
    """Push a message from now on; the handler returns when to push it again."""
    when = timezone.now() + message.every
    add_task(
        Task(biz_code="shop.push_message", biz_num=message.code, when=when, biz_ext={"pushed": 0})
    )


def stop_pushing(message: Message) -> None:
    cancel_task("shop.push_message", message.code)
