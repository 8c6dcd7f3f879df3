from __future__ import annotations

import grpc
import pytest

from shop import service
from shop.gen import shop_pb2, shop_pb2_grpc
from shop.recommendation import Recommendation, choose

STOCK = [shop_pb2.Product(id=name) for name in "abcdef"]


class Catalogue(shop_pb2_grpc.CatalogueServicer):
    def ListProducts(self, request, context):
        return shop_pb2.ProductList(products=STOCK)


@pytest.mark.parametrize(
    ("owned", "chosen"),
    [("", "abcd"), ("a", "bcde"), ("e", "fabc"), ("f", "abcd"), ("bd", "efac"), ("abcdef", ""), ("z", "abcd")],
)
def test_choice_wraps_around_and_omits_owned_products(owned, chosen):
    assert "".join(product.id for product in choose(STOCK, set(owned))) == chosen


def recommendation(serve, catalogue: grpc.Channel) -> shop_pb2_grpc.RecommendationStub:
    servicer = Recommendation(shop_pb2_grpc.CatalogueStub(catalogue))
    channel = serve(lambda server: shop_pb2_grpc.add_RecommendationServicer_to_server(servicer, server))
    return shop_pb2_grpc.RecommendationStub(channel)


def test_recommendations_come_from_the_catalogue(serve):
    catalogue = serve(lambda server: shop_pb2_grpc.add_CatalogueServicer_to_server(Catalogue(), server))
    reply = recommendation(serve, catalogue).ListRecommendations(
        shop_pb2.RecommendationRequest(product_ids=["b"]), timeout=5
    )
    assert [product.id for product in reply.products] == list("cdef")


def test_an_error_of_the_catalogue_is_returned(serve):
    stub = recommendation(serve, service.dial("127.0.0.1:1"))
    with pytest.raises(grpc.RpcError) as failed:
        stub.ListRecommendations(shop_pb2.RecommendationRequest())
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
