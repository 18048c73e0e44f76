from django import forms

from testproject.shop.models import Product


class OrderForm(forms.Form):
    product = forms.ModelChoiceField(Product.objects.order_by("name"), empty_label=None)
    quantity = forms.IntegerField(min_value=1, max_value=100, initial=1)
    customer = forms.EmailField(label="Your address", initial="you@example.com")
