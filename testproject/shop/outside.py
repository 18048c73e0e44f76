"""Stand-ins for services outside the shop, with the manners of such services."""


class GatewayBusy(OSError):
    """The mail gateway takes nothing just now."""


class WebhookGone(OSError):
    """Nobody answers at this address any more."""


def send_mail(address: str, subject: str, *, message_id: str, attempt: int) -> None:
    """Refuse a mail twice, then take it. One whose id has been taken before is dropped."""
    if attempt < 3:
        raise GatewayBusy("451 The mail gateway is busy")


def call_webhook(address: str, content: dict[str, object]) -> None:
    """Fail, always."""
    raise WebhookGone("410 The partner's webhook is gone")


def push(text: str) -> None:
    """Show a text on the telephones of all subscribers."""
