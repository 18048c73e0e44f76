from typing import TYPE_CHECKING, Any

from django.contrib import admin

from testproject.shop.models import Message, Order, Partner, Product, Promotion

# Only type checkers know that it has a parameter.
if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(Partner)
class PartnerAdmin(ModelAdmin):
    list_display = ["name", "webhook", "unreachable_since"]


@admin.register(Product)
class ProductAdmin(ModelAdmin):
    list_display = ["name", "price", "stock", "partner"]


@admin.register(Promotion)
class PromotionAdmin(ModelAdmin):
    list_display = ["code", "percent", "is_active", "ends_at"]


@admin.register(Order)
class OrderAdmin(ModelAdmin):
    list_display = ["number", "status", "customer", "product", "quantity", "placed_at"]
    list_filter = ["status"]
    search_fields = ["number", "customer"]


@admin.register(Message)
class MessageAdmin(ModelAdmin):
    list_display = ["code", "every", "text"]
