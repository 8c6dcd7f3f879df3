from __future__ import annotations

import grpc
import pytest

from shop.email import Email
from shop.gen import shop_pb2, shop_pb2_grpc

ORDER = shop_pb2.Order(
    id="order-1",
    lines=[shop_pb2.OrderLine(name="Harbour mug", quantity=2, price=shop_pb2.Money(currency="EUR", hundredths=2668))],
    shipping=shop_pb2.Money(currency="EUR", hundredths=5),
    total=shop_pb2.Money(currency="EUR", hundredths=2673),
    tracking_id="parcel-1",
)

LETTER = """\
Thank you for your order order-1.

  2 × Harbour mug: EUR 26.68
  Shipping: EUR 0.05
  Total: EUR 26.73

Your parcel is parcel-1."""


def test_confirmation_is_written(serve):
    email = Email()
    channel = serve(lambda server: shop_pb2_grpc.add_EmailServicer_to_server(email, server))
    stub = shop_pb2_grpc.EmailStub(channel)
    stub.SendConfirmation(shop_pb2.ConfirmationRequest(to="ann@example.org", order=ORDER))
    for address in ("", "ann", "@", "ann@", "@example.org"):
        with pytest.raises(grpc.RpcError) as error:
            stub.SendConfirmation(shop_pb2.ConfirmationRequest(to=address, order=ORDER))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert list(email.outbox) == [("ann@example.org", LETTER)]
