from datetime import timedelta

from django.contrib import messages
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from django_tasks.api import get_task
from testproject.shop import actions
from testproject.shop.forms import OrderForm
from testproject.shop.models import Message, Order, Promotion


@require_http_methods(["GET", "HEAD", "POST"])
def order_something(request: HttpRequest) -> HttpResponse:
    """The shop: one form."""
    form = OrderForm(request.POST or None)
    if form.is_valid():
        try:
            return redirect("order", actions.place_order(**form.cleaned_data).number)
        except actions.OutOfStock as problem:
            form.add_error("quantity", str(problem))
    promotions = Promotion.objects.filter(is_active=True)
    return render(request, "shop/index.html", {"form": form, "promotions": promotions})


@require_GET
def show_order(request: HttpRequest, number: str) -> HttpResponse:
    order = get_object_or_404(Order, number=number)
    # The task is the only place that knows when the order will be cancelled.
    task = get_task("shop.cancel_unpaid", order.number)
    return render(request, "shop/order.html", {"order": order, "task": task})


@require_POST
def pay(request: HttpRequest, number: str) -> HttpResponse:
    order = get_object_or_404(Order, number=number)
    try:
        actions.pay_order(order)
    except actions.NotPayable as problem:
        messages.error(request, str(problem))
    return redirect("order", order.number)


@require_POST
@staff_member_required
def start_promotion(request: HttpRequest, code: str, minutes: int) -> JsonResponse:
    promotion = get_object_or_404(Promotion, code=code)
    actions.start_promotion(promotion, timezone.now() + timedelta(minutes=minutes))
    return JsonResponse({"promotion": promotion.code, "ends_at": promotion.ends_at})


@require_POST
@staff_member_required
def start_pushing(request: HttpRequest, code: str) -> JsonResponse:
    message = get_object_or_404(Message, code=code)
    actions.start_pushing(message)
    return JsonResponse({"message": message.code, "every": message.every.total_seconds()})


@require_POST
@staff_member_required
def stop_pushing(request: HttpRequest, code: str) -> JsonResponse:
    message = get_object_or_404(Message, code=code)
    actions.stop_pushing(message)
    return JsonResponse({"message": message.code, "every": None})
