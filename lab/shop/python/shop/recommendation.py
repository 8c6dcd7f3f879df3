"""The recommendation service: other products for a customer.

It lists the catalogue and proposes the products that follow those the customer
has or views, so equal requests get equal replies. If the catalogue fails, it
returns the catalogue's error.
"""

from __future__ import annotations

import grpc

from shop import service
from shop.gen import shop_pb2, shop_pb2_grpc

RECOMMENDATIONS_MAX = 4


class Recommendation(shop_pb2_grpc.RecommendationServicer):
    def __init__(self, catalogue: shop_pb2_grpc.CatalogueStub) -> None:
        self._catalogue = catalogue

    def ListRecommendations(
        self, request: shop_pb2.RecommendationRequest, context: grpc.ServicerContext
    ) -> shop_pb2.ProductList:
        """Up to four products the customer does not have yet."""
        try:
            stock = self._catalogue.ListProducts(shop_pb2.Empty(), timeout=service.call_timeout_s(context))
        except grpc.RpcError as error:
            context.abort(error.code(), f"catalogue: {error.details()}")
        return shop_pb2.ProductList(products=choose(list(stock.products), set(request.product_ids)))


def choose(stock: list[shop_pb2.Product], owned: set[str]) -> list[shop_pb2.Product]:
    """The first four products not in `owned`, starting after the last one that is
    and wrapping around."""
    last = max((index for index, product in enumerate(stock) if product.id in owned), default=-1)
    rotated = stock[last + 1 :] + stock[: last + 1]
    return [product for product in rotated if product.id not in owned][:RECOMMENDATIONS_MAX]


def main() -> None:
    def build():
        channel = service.dial(service.address("CATALOGUE_ADDR"))
        servicer = Recommendation(shop_pb2_grpc.CatalogueStub(channel))
        return lambda server: shop_pb2_grpc.add_RecommendationServicer_to_server(servicer, server)

    service.run("recommendation", build)


if __name__ == "__main__":
    main()
