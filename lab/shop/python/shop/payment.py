"""The payment service: it charges cards.

Every accepted Charge is one more charge, also for an order already paid: it is
for the caller not to ask twice. The last thousand charges are remembered until
the process stops.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque

import grpc

from shop import service
from shop.gen import shop_pb2, shop_pb2_grpc

REMEMBERED = 1000


class Payment(shop_pb2_grpc.PaymentServicer):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receipts: deque[shop_pb2.Receipt] = deque(maxlen=REMEMBERED)

    def Charge(self, request: shop_pb2.ChargeRequest, context: grpc.ServicerContext) -> shop_pb2.Receipt:
        """Charge a card. INVALID_ARGUMENT: nothing to pay.
        FAILED_PRECONDITION: the card's number is not a possible one."""
        if request.amount.hundredths <= 0 or not request.amount.currency:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "nothing to pay")
        if not plausible(request.card):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "card declined")
        receipt = shop_pb2.Receipt(
            id="charge-" + hashlib.sha256(request.order_id.encode()).hexdigest()[:8],
            order_id=request.order_id,
            user=request.user,
            amount=request.amount,
        )
        with self._lock:
            self._receipts.append(receipt)
        return receipt

    def ListCharges(self, request: shop_pb2.UserRequest, context: grpc.ServicerContext) -> shop_pb2.ChargeList:
        """What a user was charged, oldest first."""
        with self._lock:
            return shop_pb2.ChargeList(charges=[r for r in self._receipts if r.user == request.user])


def plausible(card: str) -> bool:
    """Whether `card` has 12 to 19 digits, spaces and dashes aside, and the
    check digit of ISO/IEC 7812 (Luhn)."""
    number = card.replace(" ", "").replace("-", "")
    if not (number.isascii() and number.isdigit() and 12 <= len(number) <= 19):
        return False
    total = 0
    for place, digit in enumerate(reversed(number)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def main() -> None:
    def build():
        payment = Payment()
        return lambda server: shop_pb2_grpc.add_PaymentServicer_to_server(payment, server)

    service.run("payment", build)


if __name__ == "__main__":
    main()
