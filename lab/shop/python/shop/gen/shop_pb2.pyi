from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Money(_message.Message):
    __slots__ = ("currency", "hundredths")
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    HUNDREDTHS_FIELD_NUMBER: _ClassVar[int]
    currency: str
    hundredths: int
    def __init__(self, currency: _Optional[str] = ..., hundredths: _Optional[int] = ...) -> None: ...

class CurrencyList(_message.Message):
    __slots__ = ("codes",)
    CODES_FIELD_NUMBER: _ClassVar[int]
    codes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, codes: _Optional[_Iterable[str]] = ...) -> None: ...

class ConvertRequest(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: str
    def __init__(self, to: _Optional[str] = ..., **kwargs) -> None: ...

class Product(_message.Message):
    __slots__ = ("id", "name", "text", "picture", "price")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PICTURE_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    text: str
    picture: str
    price: Money
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., text: _Optional[str] = ..., picture: _Optional[str] = ..., price: _Optional[_Union[Money, _Mapping]] = ...) -> None: ...

class ProductList(_message.Message):
    __slots__ = ("products",)
    PRODUCTS_FIELD_NUMBER: _ClassVar[int]
    products: _containers.RepeatedCompositeFieldContainer[Product]
    def __init__(self, products: _Optional[_Iterable[_Union[Product, _Mapping]]] = ...) -> None: ...

class ProductRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class UserRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class CartItem(_message.Message):
    __slots__ = ("product_id", "quantity")
    PRODUCT_ID_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    product_id: str
    quantity: int
    def __init__(self, product_id: _Optional[str] = ..., quantity: _Optional[int] = ...) -> None: ...

class CartContents(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CartItem]
    def __init__(self, items: _Optional[_Iterable[_Union[CartItem, _Mapping]]] = ...) -> None: ...

class AddItemRequest(_message.Message):
    __slots__ = ("user", "item")
    USER_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    user: str
    item: CartItem
    def __init__(self, user: _Optional[str] = ..., item: _Optional[_Union[CartItem, _Mapping]] = ...) -> None: ...

class AdsRequest(_message.Message):
    __slots__ = ("product_id",)
    PRODUCT_ID_FIELD_NUMBER: _ClassVar[int]
    product_id: str
    def __init__(self, product_id: _Optional[str] = ...) -> None: ...

class Ad(_message.Message):
    __slots__ = ("text", "product_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    product_id: str
    def __init__(self, text: _Optional[str] = ..., product_id: _Optional[str] = ...) -> None: ...

class AdList(_message.Message):
    __slots__ = ("ads",)
    ADS_FIELD_NUMBER: _ClassVar[int]
    ads: _containers.RepeatedCompositeFieldContainer[Ad]
    def __init__(self, ads: _Optional[_Iterable[_Union[Ad, _Mapping]]] = ...) -> None: ...

class RecommendationRequest(_message.Message):
    __slots__ = ("product_ids",)
    PRODUCT_IDS_FIELD_NUMBER: _ClassVar[int]
    product_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, product_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class QuoteRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CartItem]
    def __init__(self, items: _Optional[_Iterable[_Union[CartItem, _Mapping]]] = ...) -> None: ...

class ShipRequest(_message.Message):
    __slots__ = ("order_id", "user", "address", "items")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    user: str
    address: str
    items: _containers.RepeatedCompositeFieldContainer[CartItem]
    def __init__(self, order_id: _Optional[str] = ..., user: _Optional[str] = ..., address: _Optional[str] = ..., items: _Optional[_Iterable[_Union[CartItem, _Mapping]]] = ...) -> None: ...

class Shipment(_message.Message):
    __slots__ = ("tracking_id", "order_id", "user")
    TRACKING_ID_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    tracking_id: str
    order_id: str
    user: str
    def __init__(self, tracking_id: _Optional[str] = ..., order_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ShipmentList(_message.Message):
    __slots__ = ("shipments",)
    SHIPMENTS_FIELD_NUMBER: _ClassVar[int]
    shipments: _containers.RepeatedCompositeFieldContainer[Shipment]
    def __init__(self, shipments: _Optional[_Iterable[_Union[Shipment, _Mapping]]] = ...) -> None: ...

class ChargeRequest(_message.Message):
    __slots__ = ("order_id", "user", "card", "amount")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    user: str
    card: str
    amount: Money
    def __init__(self, order_id: _Optional[str] = ..., user: _Optional[str] = ..., card: _Optional[str] = ..., amount: _Optional[_Union[Money, _Mapping]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("id", "order_id", "user", "amount")
    ID_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    id: str
    order_id: str
    user: str
    amount: Money
    def __init__(self, id: _Optional[str] = ..., order_id: _Optional[str] = ..., user: _Optional[str] = ..., amount: _Optional[_Union[Money, _Mapping]] = ...) -> None: ...

class ChargeList(_message.Message):
    __slots__ = ("charges",)
    CHARGES_FIELD_NUMBER: _ClassVar[int]
    charges: _containers.RepeatedCompositeFieldContainer[Receipt]
    def __init__(self, charges: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ...) -> None: ...

class ConfirmationRequest(_message.Message):
    __slots__ = ("to", "order")
    TO_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    to: str
    order: Order
    def __init__(self, to: _Optional[str] = ..., order: _Optional[_Union[Order, _Mapping]] = ...) -> None: ...

class OrderRequest(_message.Message):
    __slots__ = ("user", "currency", "email", "address", "card")
    USER_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    user: str
    currency: str
    email: str
    address: str
    card: str
    def __init__(self, user: _Optional[str] = ..., currency: _Optional[str] = ..., email: _Optional[str] = ..., address: _Optional[str] = ..., card: _Optional[str] = ...) -> None: ...

class OrderLine(_message.Message):
    __slots__ = ("product_id", "name", "quantity", "price")
    PRODUCT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    product_id: str
    name: str
    quantity: int
    price: Money
    def __init__(self, product_id: _Optional[str] = ..., name: _Optional[str] = ..., quantity: _Optional[int] = ..., price: _Optional[_Union[Money, _Mapping]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("id", "lines", "shipping", "total", "tracking_id", "email_sent", "cart_emptied")
    ID_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    SHIPPING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TRACKING_ID_FIELD_NUMBER: _ClassVar[int]
    EMAIL_SENT_FIELD_NUMBER: _ClassVar[int]
    CART_EMPTIED_FIELD_NUMBER: _ClassVar[int]
    id: str
    lines: _containers.RepeatedCompositeFieldContainer[OrderLine]
    shipping: Money
    total: Money
    tracking_id: str
    email_sent: bool
    cart_emptied: bool
    def __init__(self, id: _Optional[str] = ..., lines: _Optional[_Iterable[_Union[OrderLine, _Mapping]]] = ..., shipping: _Optional[_Union[Money, _Mapping]] = ..., total: _Optional[_Union[Money, _Mapping]] = ..., tracking_id: _Optional[str] = ..., email_sent: _Optional[bool] = ..., cart_emptied: _Optional[bool] = ...) -> None: ...
