"""The strictest Content-Security-Policy that a project may serve the admin with."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

Handler = Callable[[HttpRequest], HttpResponse]


def strict_policy(get_response: Handler) -> Handler:
    """A middleware that puts the policy on every answer."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return answer
