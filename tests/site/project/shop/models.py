"""What the shop of the pages sells, promises and says."""

from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    customer = models.CharField(max_length=100, default="")
    status = models.CharField(max_length=10, default="new")
    total = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    paid_at = models.DateTimeField(null=True, blank=True)

    def __str__(self):
        return self.number


class Promotion(models.Model):
    name = models.CharField(max_length=100)
    ends_at = models.DateTimeField(null=True, blank=True)
    active = models.BooleanField(default=True)

    def __str__(self):
        return self.name


class Product(models.Model):
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    stock = models.IntegerField(default=0)

    def __str__(self):
        return self.name


class Message(models.Model):
    subject = models.CharField(max_length=200)
    body = models.TextField(default="")
    sent_at = models.DateTimeField(null=True, blank=True)

    def __str__(self):
        return self.subject
