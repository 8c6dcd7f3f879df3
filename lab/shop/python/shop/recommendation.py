"""The recommendation service: what else a customer might like.

It asks the catalogue for all products and proposes the ones that follow those
the customer has or looks at, so equal questions get equal answers. Without the
catalogue it has nothing to say and passes the catalogue's error on.
"""

from __future__ import annotations

import grpc

from shop import service
from shop.gen import shop_pb2, shop_pb2_grpc

AT_MOST = 4


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


def choose(stock: list[shop_pb2.Product], known: set[str]) -> list[shop_pb2.Product]:
    """The first four unknown products after the last known one, going round."""
    last = max((place for place, product in enumerate(stock) if product.id in known), default=-1)
    turned = stock[last + 1 :] + stock[: last + 1]
    return [product for product in turned if product.id not in known][:AT_MOST]


def main() -> None:
    def build():
        channel = service.dial(service.address("CATALOGUE_ADDR"))
        servicer = Recommendation(shop_pb2_grpc.CatalogueStub(channel))
        return lambda server: shop_pb2_grpc.add_RecommendationServicer_to_server(servicer, server)

    service.run("recommendation", build)


if __name__ == "__main__":
    main()
