"""The e-mail service: writes order confirmations.

It sends no mail: the last hundred messages are kept in memory.
"""

from __future__ import annotations

from collections import deque

import grpc

from shop import service
from shop.gen import shop_pb2, shop_pb2_grpc

MESSAGES_MAX = 100


class Email(shop_pb2_grpc.EmailServicer):
    def __init__(self) -> None:
        self.outbox: deque[tuple[str, str]] = deque(maxlen=MESSAGES_MAX)

    def SendConfirmation(
        self, request: shop_pb2.ConfirmationRequest, context: grpc.ServicerContext
    ) -> shop_pb2.Empty:
        """Send the confirmation. INVALID_ARGUMENT: not an e-mail address."""
        if "@" not in request.to[1:-1]:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{request.to!r} is not an e-mail address")
        self.outbox.append((request.to, letter(request.order)))
        return shop_pb2.Empty()


def letter(order: shop_pb2.Order) -> str:
    """The text of a confirmation."""
    lines = [f"Thank you for your order {order.id}.", ""]
    for line in order.lines:
        lines.append(f"  {line.quantity} × {line.name}: {amount(line.price)}")
    lines += [
        f"  Shipping: {amount(order.shipping)}",
        f"  Total: {amount(order.total)}",
        "",
        f"Your parcel is {order.tracking_id}.",
    ]
    return "\n".join(lines)


def amount(money: shop_pb2.Money) -> str:
    """An amount as in "EUR 12.50"."""
    return f"{money.currency} {money.hundredths // 100}.{money.hundredths % 100:02d}"


def main() -> None:
    def build():
        email = Email()
        return lambda server: shop_pb2_grpc.add_EmailServicer_to_server(email, server)

    service.run("email", build)


if __name__ == "__main__":
    main()
