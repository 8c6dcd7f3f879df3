"""A handler of grpcio's synchronous server, inside the scope of the call it answers: unary ones and streams.

A stream without an envelope gets the application's handler object itself. The answer of a unary call is recorded when
its message is serialized, the last moment at which both the message and the trailers can still be changed; that of a stream
of replies when its handler has ended. One message is serialized where the handler is called, a function less for every request than
a serializer of ours would be.

A unary call's envelope may come behind its message: the deserializer takes it out, on the thread that serves all calls, and
hands it to the handler together with the message.
"""

from __future__ import annotations

import functools
import logging
from time import perf_counter_ns, time_ns
from typing import Any, Callable, Dict, Iterator, Optional

import grpc
from grpc._utilities import RpcMethodHandler

from ..carriers import MAGIC, TRAILER_BYTES, field, field_cutter, field_ends
from ..context import CURRENT
from ..envelope import ACCEPT_FIELD
from ..history import HISTORY_BYTES, TAKES_FIELD, truncate
from ..runtime import runtime
from ..scope import Scope
from . import grpc_status as status


class Answer:
    """Turns the end of one RPC into a history and its carrier."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def serializer(self, inner: Optional[Callable[[Any], bytes]], seen: Dict[str, Any]) -> Callable[[Any], bytes]:
        """The handler's serializer with the history behind it; ``seen`` holds the RPC's context by then."""

        return lambda message: self.serialize(inner, message, seen["context"])

    def serialize(self, inner: Optional[Callable[[Any], bytes]], message: Any, context: Any) -> bytes:
        try:
            data: bytes = message if inner is None else inner(message)
        except BaseException:
            self.with_error(13, context)
            raise
        if not isinstance(data, bytes):
            self.with_error(13, context)
            return data
        return self.with_message(data, context)

    def with_returned(self, context: Any) -> None:
        """A handler may set a code and return all the same: then there is no message to carry the history."""
        code = status.number_of(context.code())
        if code:
            self.with_error(code, context)

    def with_message(self, data: bytes, context: Any) -> bytes:
        """The message to send, with the history appended if the caller takes it, else with the trailer set."""
        return self.carrying(self.scope.respond(0), data, context)

    def carrying(self, history: Optional[bytes], data: bytes, context: Any) -> bytes:
        envelope = self.scope.envelope
        if history is None or not envelope.history:
            return data
        if envelope.accept & ACCEPT_FIELD:
            fits = history if len(history) <= HISTORY_BYTES else truncate(history, HISTORY_BYTES)
            if fits is not None:
                with_field = data + field(fits)
                if len(with_field) <= envelope.receive_limit:
                    return with_field
        self._set_trailer(history, context)
        return data

    def with_error(self, code: int, context: Any) -> None:
        trailer = self.trailer(code)
        if trailer is not None:
            context.set_trailing_metadata(status.with_own(context.trailing_metadata(), trailer))

    def trailer(self, code: int) -> Optional[bytes]:
        """Ends the scope with an error; the trailer's value, if one is to be sent."""
        history = self._history(code)
        return None if history is None else truncate(history, TRAILER_BYTES)

    def _history(self, code: int) -> Optional[bytes]:
        history = self.scope.respond(code)
        return history if self.scope.envelope.history else None

    def _set_trailer(self, history: bytes, context: Any) -> None:
        fits = truncate(history, TRAILER_BYTES)
        if fits is not None:
            context.set_trailing_metadata(status.with_own(context.trailing_metadata(), fits))


class StreamAnswer(Answer):
    """As Answer, for a call with a stream on either side: each message takes a piece of the history along."""

    def __init__(self, scope: Scope, one_message: bool) -> None:
        super().__init__(scope)
        self._one_message = one_message

    def with_returned(self, context: Any) -> None:
        code = status.number_of(context.code())
        if code or not self._one_message:
            self.with_error(code, context)

    def with_message(self, data: bytes, context: Any) -> bytes:
        piece = self.scope.piece(len(data))
        if self._one_message:
            self.with_error(0, context)
        return data if piece is None else data + field(piece)

    def trailer(self, code: int) -> Optional[bytes]:
        return self.scope.respond_stream(code)


JoinAnswer = functools.partial(StreamAnswer, one_message=True)


#: under which names a handler keeps ours: for servers that do not say that they take envelopes behind messages, and that do
KEPT = ("_faultloom", "_faultloom_takes")


def in_scope_handler(handler: Any, scope: Optional[Scope], takes: bool) -> Any:
    """The handler that the application's interceptors and functions gave, inside the scope; for one reply message it is the same for every call."""
    if handler is not None and scope is None and (handler.request_streaming or handler.response_streaming):
        return handler
    behaviour = behaviour_of(handler)
    if behaviour is None or getattr(behaviour, "experimental_non_blocking", False):
        if scope is not None:
            scope.abandon()
        return handler
    if scope is not None and handler.response_streaming:
        return traced_stream_handler(handler, behaviour, scope)
    known = traced_handler(handler, behaviour, TAKES_FIELD if takes else 0)
    keep(handler, KEPT[takes], known)
    return known


def keep(handler: Any, name: str, known: Any) -> None:
    """Has the handler keep ours. The library's own cannot change; one that can, or a copy of it, must not bring an earlier self back."""
    if type(handler) is RpcMethodHandler:
        setattr(handler, name, known)


def behaviour_of(handler: Any) -> Any:
    """The application's function in a handler, None if there is none."""
    if handler is None:
        return None
    if handler.request_streaming:
        return handler.stream_stream if handler.response_streaming else handler.stream_unary
    return handler.unary_stream if handler.response_streaming else handler.unary_unary


def answer_of(handler: Any, scope: Scope) -> Answer:
    if handler.request_streaming or handler.response_streaming:
        return StreamAnswer(scope, not handler.response_streaming)
    return Answer(scope)


class Carried(tuple):  # type: ignore[type-arg]
    """A request whose envelope came behind its message: (message, envelope, µs since the epoch, ns of ``perf_counter_ns``)."""

    __slots__ = ()


class TakingOut:
    """The handler's deserializer, before which an envelope behind the message is cut off; whether anybody believes it is asked later."""

    __slots__ = ("_cut", "plain")

    def __init__(self, plain: Optional[Callable[[bytes], Any]]) -> None:
        self.plain = plain
        self._cut = field_cutter(plain)

    def __call__(self, data: bytes) -> Any:
        if data[-4:] == MAGIC:
            return self.carried(data)
        return data if self.plain is None else self.plain(data)

    def carried(self, data: bytes) -> Any:
        """Of bytes that end as an envelope does."""
        start_us, start_ns = time_ns() // 1000, perf_counter_ns()
        message, envelope = self._cut(data)
        return message if envelope is None or message is None else Carried((message, envelope, start_us, start_ns))


def traced_handler(handler: Any, behaviour: Any, takes_field: int) -> Any:
    """For one reply message. Serves every call, traced or not; the scope is that of the call's context."""
    answer: Callable[[Scope], Answer] = Answer
    deserializer = TakingOut(handler.request_deserializer)
    if handler.request_streaming:
        answer, deserializer, takes_field = JoinAnswer, handler.request_deserializer, 0
    field_scope = runtime().field_scope
    serializer = handler.response_serializer
    serialize = serializing(serializer, answer)

    def run(request: Any, context: Any) -> Any:
        scope = CURRENT.get()
        if type(request) is Carried:
            request, envelope, start_us, start_ns = request
            scope = field_scope(envelope, context.invocation_metadata, scope, start_us, start_ns)
            CURRENT.set(scope)
        if scope is None:
            message = behaviour(request, context)
            try:
                return message if serializer is None else serializer(message)
            except Exception:
                return not_serialized()
        scope.answer = context
        if scope.destination is None:
            scope.takes_field = takes_field
        try:
            message = behaviour(request, context)
        except BaseException:
            scope.answer = None
            answer(scope).with_error(status.number_of(context.code()) or 2, context)
            raise
        try:
            code = context._state.code  # a function less than ``code()``
        except AttributeError:
            code = context.code()
        if code is not None:
            answer(scope).with_returned(context)
        try:
            return serialize(message)
        except Exception:
            return not_serialized()

    pool = getattr(behaviour, "experimental_thread_pool", None)
    if pool is not None:  # the library asks a handler's function which pool is to run it
        run.experimental_thread_pool = pool  # type: ignore[attr-defined]
    return method_handler(handler, run, None, deserializer)


def not_serialized() -> Any:
    """What the library says of a reply that its handler's serializer refuses, and gives itself then: it answers INTERNAL to that."""
    logging.getLogger("grpc._common").exception("Exception serializing message!")
    return None


def serializing(serializer: Optional[Callable[[Any], bytes]], answer: Callable[[Scope], Answer] = Answer) -> Callable[[Any], Any]:
    """The handler's serializer, with the history behind what it gives if the call has a scope that is to be answered."""

    def serialize(message: Any) -> Any:
        scope = CURRENT.get()
        if scope is None or scope.answer is None:
            return message if serializer is None else serializer(message)
        context = scope.answer
        scope.answer = None  # it holds the call's state, which holds the scope: left for the garbage collector otherwise
        if answer is not Answer:
            return answer(scope).serialize(serializer, message, context)
        # as ``Answer.serialize``, in fewer steps for an ordinary answer
        try:
            data = message if serializer is None else serializer(message)
        except BaseException:
            Answer(scope).with_error(13, context)
            raise
        if type(data) is not bytes:
            Answer(scope).with_error(13, context)
            return data
        history = scope.respond(0)
        if history is not None:
            envelope = scope.envelope
            size = len(history)
            if size <= HISTORY_BYTES and envelope.history and envelope.accept & ACCEPT_FIELD:
                before, behind = field_ends(size)
                whole = b"".join((data, before, history, behind))
                if len(whole) <= envelope.receive_limit:
                    return whole
        return Answer(scope).carrying(history, data, context)

    return serialize


def traced_stream_handler(handler: Any, behaviour: Any, scope: Scope) -> Any:
    """For a stream of reply messages. The scope ends with the iterator that the handler returned."""
    answer = answer_of(handler, scope)
    seen: Dict[str, Any] = {}

    def run(request: Any, context: Any) -> Any:
        seen["context"] = context
        token = CURRENT.set(scope)
        try:
            replies = behaviour(request, context)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        finally:
            CURRENT.reset(token)
        return in_scope(replies, answer, context)

    return wrapped_handler(run, handler, answer.serializer(handler.response_serializer, seen))


def in_scope(replies: Any, answer: Answer, context: Any) -> Iterator[Any]:
    """What the handler's iterator gives, each step inside the scope."""
    scope = answer.scope
    try:
        while True:
            token = CURRENT.set(scope)
            try:
                message = next(replies)
            except StopIteration:
                break
            except BaseException:
                answer.with_error(status.number_of(context.code()) or 2, context)
                raise
            finally:
                CURRENT.reset(token)
            yield message
        answer.with_returned(context)
    finally:
        if not scope.over:  # nobody wants the rest: the handler's clean-up still belongs to the call
            token = CURRENT.set(scope)
            try:
                close = getattr(replies, "close", None)
                if close is not None:
                    close()
            finally:
                CURRENT.reset(token)
                scope.abandon()


def wrapped_handler(run: Any, handler: Any, serializer: Any) -> Any:
    """The application's handler with another function and serializer."""
    try:
        functools.update_wrapper(run, behaviour_of(handler))
    except (AttributeError, TypeError):
        pass
    return method_handler(handler, run, serializer, handler.request_deserializer)


def method_handler(handler: Any, run: Any, serializer: Any, deserializer: Any) -> Any:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(run, deserializer, serializer)
