from django.urls import path

from testproject.shop import views

urlpatterns = [
    path("", views.order_something, name="shop"),
    path("orders/<str:number>/", views.show_order, name="order"),
    path("orders/<str:number>/pay/", views.pay, name="pay"),
    path("promotions/<str:code>/start/<int:minutes>/", views.start_promotion),
    path("messages/<str:code>/start/", views.start_pushing),
    path("messages/<str:code>/stop/", views.stop_pushing),
]
