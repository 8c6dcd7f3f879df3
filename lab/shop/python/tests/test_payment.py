from __future__ import annotations

import grpc
import pytest

from shop.gen import shop_pb2, shop_pb2_grpc
from shop.payment import Payment, plausible

CARD = "4000 0000 0000 0002"


@pytest.fixture
def payment(serve) -> shop_pb2_grpc.PaymentStub:
    channel = serve(lambda server: shop_pb2_grpc.add_PaymentServicer_to_server(Payment(), server))
    return shop_pb2_grpc.PaymentStub(channel)


def charge(user: str = "ann", card: str = CARD, hundredths: int = 100) -> shop_pb2.ChargeRequest:
    amount = shop_pb2.Money(currency="EUR", hundredths=hundredths)
    return shop_pb2.ChargeRequest(order_id="order-1", user=user, card=card, amount=amount)


def test_every_charge_counts_also_a_second_one_for_the_same_order(payment):
    first = payment.Charge(charge())
    assert payment.Charge(charge()) == first
    payment.Charge(charge(user="bob"))
    assert list(payment.ListCharges(shop_pb2.UserRequest(user="ann")).charges) == [first, first]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (charge(card="4000 0000 0000 0003"), grpc.StatusCode.FAILED_PRECONDITION),
        (charge(hundredths=0), grpc.StatusCode.INVALID_ARGUMENT),
        (charge(hundredths=-5), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_refused_charges_leave_nothing(payment, request_, code):
    with pytest.raises(grpc.RpcError) as refused:
        payment.Charge(request_)
    assert refused.value.code() == code
    assert not payment.ListCharges(shop_pb2.UserRequest(user="ann")).charges


def test_plausible_cards():
    assert plausible(CARD)
    assert plausible("4000-0000-0000-0002")
    for card in ("", "0", "4000 0000 0000 0001", "4000 0000 000x 0002", "٤" * 16, "0" * 20):
        assert not plausible(card), card
