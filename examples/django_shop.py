"""Django: recommendations in a view, purchases by a signal. The parts of a project that matter, in one file.

    pip install 'coldstream[client]' django
    coldstream serve --schema examples/schema.toml --data data &
    python examples/django_shop.py runserver

In a project of your own: `recommender` goes into a module that views import, `bought` wherever an order is paid.
"""

import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.dispatch import Signal, receiver
from django.http import HttpRequest, JsonResponse
from django.urls import path

from coldstream.client import BackgroundEvents, Client, ServiceUnavailable

settings.configure(
    DEBUG=False, SECRET_KEY="only for this example", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "testserver"]
)
django.setup()

recommender = Client(os.environ.get("COLDSTREAM_URL", "http://127.0.0.1:8000"), timeout=0.5)
purchases = BackgroundEvents(recommender)
bought = Signal()
"""Sent with the customer and the item of a paid order."""


@receiver(bought)
def learn(sender: object, customer: str, item: str, **more: object) -> None:  # noqa: ARG001
    """A purchase is learned, without the customer waiting for it."""
    purchases.add(customer, item)


def shelf(request: HttpRequest, customer: str) -> JsonResponse:  # noqa: ARG001
    """What to show a customer; nothing, while the recommender is away."""
    try:
        return JsonResponse({"items": [one.item for one in recommender.recommend(customer, n=5)]})
    except ServiceUnavailable:
        return JsonResponse({"items": []})


def buy(request: HttpRequest, customer: str, item: str) -> JsonResponse:  # noqa: ARG001
    """An order that is paid."""
    bought.send(sender=buy, customer=customer, item=item)
    return JsonResponse({"bought": item})


urlpatterns = [path("shelf/<str:customer>", shelf), path("buy/<str:customer>/<str:item>", buy)]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
