"""Handlers of the shop's tasks. django_tasks finds this module by its name.

A task that has run may run again: its process can die after the work and before the end of the
run is written. So every handler here can be repeated, and a comment says what makes it so.
"""

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from django_tasks.api import RunningTask, TaskHandler, task_handler
from testproject.shop import outside
from testproject.shop.models import Message, Order, Partner, Product, Promotion

logger = logging.getLogger(__name__)


class EndPromotion(TaskHandler):
    biz_code = "shop.end_promotion"

    def handle(self, task: RunningTask) -> None:
        # It says how things shall be, not how they shall change: twice is the same as once.
        Promotion.objects.filter(code=task.biz_num).update(is_active=False)
        logger.info("The promotion %s has ended.", task.biz_num)


class CancelUnpaidOrder(TaskHandler):
    biz_code = "shop.cancel_unpaid"

    # Goods must go back into stock exactly once. "atomic = True" would do that: the run and the end
    # of its task are one transaction then. But the condition below is needed anyway, because the
    # customer may pay at this very moment; and with it, a short transaction of our own is enough.
    # On SQLite that is the better choice: one connection can write at a time, and an atomic run
    # keeps all others waiting from its beginning to its end (system check django_tasks.W006).
    def handle(self, task: RunningTask) -> None:
        with transaction.atomic():
            unpaid = Order.objects.filter(number=task.biz_num, status=Order.Status.UNPAID)
            if not unpaid.update(status=Order.Status.CANCELLED):
                return
            order = Order.objects.get(number=task.biz_num)
            product = Product.objects.filter(pk=order.product_id)
            product.update(stock=F("stock") + order.quantity)
        seconds = task.biz_ext["seconds_to_pay"]
        logger.info("Order %s was not paid within %g s: cancelled.", order, seconds)


class PushMessage(TaskHandler):
    biz_code = "shop.push_message"

    def handle(self, task: RunningTask) -> timedelta | None:
        message = Message.objects.filter(code=task.biz_num).first()
        if message is None:
            return None  # deleted: there is nothing more to push
        outside.push(message.text)  # once too often does no harm
        pushed = (task.biz_ext or {}).get("pushed", 0) + 1
        task.biz_ext = {"pushed": pushed}  # kept for the next run
        logger.info("Message %s was pushed, no. %d.", message, pushed)
        # From now, not from task.when: after an hour without a worker the subscribers shall get
        # one message, and not one for each that they missed.
        return message.every


class SendInvoice(TaskHandler):
    biz_code = "shop.send_invoice"
    queue = "mail"
    # A busy gateway is often free again in a moment. If not, it takes more patience.
    backoff = [timedelta(seconds=2), timedelta(seconds=3), timedelta(minutes=5)]
    max_attempts = 10

    def handle(self, task: RunningTask) -> None:
        order = Order.objects.get(number=task.biz_num)
        outside.send_mail(
            order.customer,
            f"Invoice of your order {order}",
            message_id=f"invoice-{order}",  # the gateway drops what it has taken before
            attempt=task.attempt,
        )
        logger.info("The invoice of order %s was sent, at attempt %d.", order, task.attempt)


class TellPartner(TaskHandler):
    biz_code = "shop.tell_partner"
    backoff = [timedelta(seconds=3), timedelta(seconds=6)]
    max_attempts = 3

    def handle(self, task: RunningTask) -> None:
        order = Order.objects.select_related("product__partner").get(number=task.biz_num)
        partner = order.product.partner
        if partner is None:
            return  # the shop ships this product itself by now
        # A partner who is told of an order twice knows it by its number.
        content = {"order": order.number, "product": str(order.product), "pieces": order.quantity}
        outside.call_webhook(partner.webhook, content)
        logger.info("%s knows of order %s.", partner, order)

    def on_failure(self, task: RunningTask, exc: BaseException) -> None:
        partner = Partner.objects.filter(product__order__number=task.biz_num)
        partner.update(unreachable_since=timezone.now())
        logger.error("The partner of order %s is marked as unreachable.", task.biz_num)


@task_handler("shop.ask_for_review", queue="mail", max_attempts=5)
def ask_for_review(task: RunningTask) -> None:
    order = Order.objects.get(number=task.biz_num)
    subject = f"How do you like it? Your order {order}"
    outside.send_mail(order.customer, subject, message_id=f"review-{order}", attempt=task.attempt)
    logger.info("The customer of order %s was asked for a review.", order)
