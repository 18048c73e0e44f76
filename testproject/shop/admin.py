from django.contrib import admin

from testproject.shop.models import Message, Order, Partner, Product, Promotion


@admin.register(Partner)
class PartnerAdmin(admin.ModelAdmin):
    list_display = ["name", "webhook", "unreachable_since"]


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["name", "price", "stock", "partner"]


@admin.register(Promotion)
class PromotionAdmin(admin.ModelAdmin):
    list_display = ["code", "percent", "is_active", "ends_at"]


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "status", "customer", "product", "quantity", "placed_at"]
    list_filter = ["status"]
    search_fields = ["number", "customer"]


@admin.register(Message)
class MessageAdmin(admin.ModelAdmin):
    list_display = ["code", "every", "text"]
