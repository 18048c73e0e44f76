from django.db import models
from django.utils import timezone
from django.utils.crypto import get_random_string

READABLE = "23456789BCDFGHJKMNPQRSTVWXZ"  # nothing that looks like something else


def new_number() -> str:
    return get_random_string(8, READABLE)


class Partner(models.Model):
    """Somebody who ships goods for the shop."""

    name = models.CharField(max_length=50, unique=True)
    webhook = models.CharField(max_length=200)
    unreachable_since = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Product(models.Model):
    name = models.CharField(max_length=50, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(default=0)
    partner = models.ForeignKey(Partner, models.SET_NULL, null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Promotion(models.Model):
    code = models.CharField(max_length=20, unique=True)
    percent = models.PositiveSmallIntegerField()
    is_active = models.BooleanField(default=False)
    ends_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.code} (-{self.percent} %)"


class Order(models.Model):
    class Status(models.TextChoices):
        UNPAID = "unpaid"
        PAID = "paid"
        CANCELLED = "cancelled"

    number = models.CharField(max_length=20, unique=True, default=new_number)
    customer = models.EmailField()
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveIntegerField(default=1)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.UNPAID)
    placed_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.number


class Message(models.Model):
    """Something that the subscribers are told again and again."""

    code = models.CharField(max_length=20, unique=True)
    text = models.CharField(max_length=200)
    every = models.DurationField()

    def __str__(self) -> str:
        return self.code
