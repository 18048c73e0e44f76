from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("django_tasks.metrics.urls")),
    path("", include("testproject.shop.urls")),
    path("admin/", admin.site.urls),
]
