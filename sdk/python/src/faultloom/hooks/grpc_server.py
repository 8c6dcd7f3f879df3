"""grpcio's synchronous server: unary-unary handlers.

Our interceptor is the first, so the application's interceptors and handlers run inside the scope. A request without an
envelope gets the application's handler object itself. The answer is recorded in the response serializer, the last
moment at which both the message and the trailers can still be changed.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Optional, Tuple

import grpc

from ..carriers import GRPC_KEY, TRAILER_BYTES, field
from ..context import CURRENT
from ..envelope import ACCEPT_FIELD
from ..history import HISTORY_BYTES, truncate
from ..runtime import runtime
from ..scope import Scope
from . import grpc_status as status
from .patching import Patch, require


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc._server."""
    from grpc._grpcio_metadata import __version__

    require("grpcio", __version__, "1.60", "2")
    create_server = module.create_server

    def create_traced_server(thread_pool: Any, handlers: Any, interceptors: Any, *args: Any, **kwargs: Any) -> Any:
        return create_server(thread_pool, handlers, (Interceptor(), *(interceptors or ())), *args, **kwargs)

    patch.replace(module, "create_server", create_traced_server)


def envelope_in(metadata: Any) -> Optional[Tuple[bytes, int]]:
    """Envelope and attempt of a request's metadata."""
    found: Optional[bytes] = None
    attempt = 0
    for key, value in metadata or ():
        if key == GRPC_KEY:
            found = value
        elif key == status.ATTEMPTS_KEY:
            text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
            attempt = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return None if found is None else (found, attempt)


class Answer:
    """Turns the end of one RPC into a history and its carrier."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def with_message(self, code: int, data: bytes, context: Any) -> bytes:
        """The message to send, with the history appended if the caller takes it, else with the trailer set."""
        history = self._history(code)
        if history is None:
            return data
        envelope = self.scope.envelope
        if code == 0 and envelope.accept & ACCEPT_FIELD:
            fits = truncate(history, HISTORY_BYTES)
            appended = b"" if fits is None else field(fits)
            if appended and len(data) + len(appended) <= envelope.receive_limit:
                return data + appended
        self._set_trailer(history, context)
        return data

    def with_error(self, code: int, context: Any) -> None:
        history = self._history(code)
        if history is not None:
            self._set_trailer(history, context)

    def _history(self, code: int) -> Optional[bytes]:
        history = self.scope.respond(code)
        return history if self.scope.envelope.history else None

    def _set_trailer(self, history: bytes, context: Any) -> None:
        fits = truncate(history, TRAILER_BYTES)
        if fits is not None:
            context.set_trailing_metadata(status.with_envelope(context.trailing_metadata(), fits))


class Interceptor(grpc.ServerInterceptor):
    """Wraps the handler of a request that carries an accepted envelope."""

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        found = envelope_in(details.invocation_metadata)
        if found is None:
            return continuation(details)
        scope = runtime().scope_from_bytes(*found)
        if scope is None:
            return continuation(details)
        token = CURRENT.set(scope)
        try:
            handler = continuation(details)
        finally:
            CURRENT.reset(token)
        if handler is None or handler.request_streaming or handler.response_streaming or handler.unary_unary is None:
            return handler
        return traced_handler(handler, scope)


def traced_handler(handler: Any, scope: Scope) -> Any:
    behaviour, serializer = handler.unary_unary, handler.response_serializer
    answer = Answer(scope)
    seen: Dict[str, Any] = {}

    def run(request: Any, context: Any) -> Any:
        seen["context"] = context
        token = CURRENT.set(scope)
        try:
            return behaviour(request, context)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        finally:
            CURRENT.reset(token)

    def serialize(message: Any) -> bytes:
        context = seen["context"]
        try:
            data: bytes = message if serializer is None else serializer(message)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 13, context)
            raise
        if not isinstance(data, bytes):
            answer.with_error(status.number_of(context.code()) or 13, context)
            return data
        return answer.with_message(status.number_of(context.code()), data, context)

    try:
        functools.update_wrapper(run, behaviour)
    except (AttributeError, TypeError):
        pass
    return grpc.unary_unary_rpc_method_handler(run, handler.request_deserializer, serialize)
