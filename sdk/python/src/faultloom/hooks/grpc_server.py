"""grpcio's synchronous server: how a call gets its scope, and our handler (``grpc_handler``) in place of the application's.

Where the library looks up a call's handler we go around it, so the application's interceptors and handlers run inside the
scope. A server without interceptors that knows all its methods by name has our handlers among its own instead: what it looks
up is ours already, and a request that nobody traces takes no step more for it.

What interceptors do while the handler is looked up is outside the scope of a call whose envelope comes behind its message, so a
server whose look-up was seen to call somebody does not say any more that it takes envelopes there.
"""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
from threading import get_ident
from typing import Any, Callable, Optional, Set, Tuple

from grpc._utilities import DictionaryGenericHandler, RpcMethodHandler

from ..bridge import BAGGAGE
from ..carriers import GRPC_KEY, MAGIC
from ..context import CURRENT, executor_submit
from ..history import TAKES_FIELD
from ..runtime import runtime
from ..scope import Scope
from . import grpc_status as status
from .grpc_handler import KEPT, TakingOut, in_scope_handler, keep, traced_handler
from .patching import Patch


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc._server."""
    lookup = LookUp(patch, module)
    serve, init, add = module._serve, module._Server.__init__, module._Server.add_generic_rpc_handlers

    def noted_init(self: Any, thread_pool: Any, handlers: Any, interceptors: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        init(self, Pool.around(thread_pool), handlers, interceptors, options, *args, **kwargs)
        self._state._faultloom_takes = takes_fields(options)

    def noted_add(self: Any, handlers: Any) -> None:
        add(self, handlers)
        lookup.learn(self._state)

    def noted_serve(state: Any, *args: Any) -> None:
        lookup.begin(state)
        try:
            serve(state, *args)
        finally:
            lookup.end()

    assert isinstance(module._RPCState().context, contextvars.Context)
    patch.replace(module._Server, "__init__", noted_init)
    patch.replace(module._Server, "add_generic_rpc_handlers", noted_add)
    patch.replace(module, "_serve", noted_serve)
    common = module._common
    if hasattr(common, "_transform"):
        patch.replace(common, "deserialize", deserialize)


class LookUp:
    """Where a call gets its scope, and our handler in place of the application's. Each server has one thread that looks handlers up."""

    def __init__(self, patch: Patch, module: Any) -> None:
        self._patch, self._module = patch, module
        self._find = module._find_method_handler
        self._method = getattr(module, "_RegisteredMethod", None)
        self._lock = threading.Lock()
        self._around = self._in_place = False
        #: the threads of servers that say that they take envelopes behind messages
        self._takers: Set[int] = set()
        #: the threads of servers that have our handlers among their own
        self._settled: Set[int] = set()

    def begin(self, state: Any) -> None:
        """``state``: that of the server which this thread begins to serve."""
        takes = getattr(state, "_faultloom_takes", False)
        if takes:
            self._takers.add(get_ident())
        if self._method is not None and knows_all(state):
            handlers = state.registered_method_handlers
            for name, handler in handlers.items():
                handlers[name] = registered_handler(handler, takes)
            state._faultloom_settled = True
            self._settled.add(get_ident())
            self._replace_method()
        else:
            self._go_around()

    def end(self) -> None:
        self._takers.discard(get_ident())
        self._settled.discard(get_ident())

    def learn(self, state: Any) -> None:
        """A server may be given handlers while it serves; those it can only be asked for."""
        if getattr(state, "_faultloom_settled", False) and not knows_all(state):
            self._go_around()

    def _go_around(self) -> None:
        with self._lock:
            if not self._around:
                self._around = True
                self._patch.replace(self._module, "_find_method_handler", self._finding())

    def _replace_method(self) -> None:
        with self._lock:
            if not self._in_place:
                self._in_place = True
                self._patch.replace(self._method, "handler", self._handling())

    def _finding(self) -> Callable[..., Any]:
        find, takers, settled = self._find, self._takers, self._settled
        draws, grpc_scope = runtime().entry.one_in > 0, runtime().grpc_scope

        def find_and_trace(rpc_event: Any, state: Any, *args: Any) -> Any:
            if get_ident() in settled and args[0].name():
                return find(rpc_event, state, *args)
            metadata = rpc_event.invocation_metadata
            scope: Optional[Scope] = None
            if draws:
                scope = grpc_scope(metadata) if metadata is not None else None
            else:
                for pair in metadata or ():
                    if pair[0] in _KEYS:
                        scope = grpc_scope(metadata)
                        break
            if scope is None:
                handler = find(rpc_event, state, *args)
            else:
                if scope.destination is not None or not scope.envelope.history:
                    scope.called = _method_name(rpc_event, args)
                # the call has a context of its own, in which its interceptors, its handler and its serializer run
                state.context.run(CURRENT.set, scope)
                handler = find(rpc_event, state, *args)
                if scope.sent:
                    takers.discard(get_ident())
            takes = get_ident() in takers
            # most handlers are made once and serve many calls
            return getattr(handler, KEPT[takes], None) or in_scope_handler(handler, scope, takes)

        return find_and_trace

    def _handling(self) -> Callable[..., Any]:
        settled, grpc_scope, draws = self._settled, runtime().grpc_scope, runtime().entry.one_in > 0

        def handler(self: Any, details: Any) -> Any:
            if not draws:
                for pair in details.invocation_metadata or ():
                    if pair[0] in _KEYS:
                        break
                else:
                    return self._registered_handler
            known = self._registered_handler
            if get_ident() not in settled:
                return known
            scope = grpc_scope(details.invocation_metadata)
            if scope is None:
                return known
            if scope.destination is not None or not scope.envelope.history:
                scope.called = self.name()
            CURRENT.set(scope)  # the library looks up in the context that the call has of its own
            return getattr(known, KEPT[False], None) or in_scope_handler(known, scope, False)

        return handler


def knows_all(state: Any) -> bool:
    """Whether a server has a handler for each of its methods, by name, and no interceptor to see them."""
    known = state.registered_method_handlers
    if state.interceptor_pipeline is not None or any(type(handler) is not RpcMethodHandler for handler in known.values()):
        return False
    return all(type(asked) is DictionaryGenericHandler and asked._method_handlers.keys() <= known.keys() for asked in state.generic_handlers)


def registered_handler(handler: Any, takes: bool) -> Any:
    """Ours, for every call of a method with one request and one reply; of another the application's, from which a traced call gets its own."""
    behaviour = handler.unary_unary
    if behaviour is None or getattr(behaviour, "experimental_non_blocking", False):
        return handler
    ours = traced_handler(handler, behaviour, TAKES_FIELD if takes else 0)
    keep(ours, KEPT[False], ours)
    return ours


def deserialize(data: bytes, deserializer: Optional[Callable[[bytes], Any]]) -> Any:
    """In place of the library's ``_common.deserialize``, which takes a function more for it: so none is added by our looking at requests."""
    if type(deserializer) is TakingOut:
        deserializer = deserializer.carried if data[-4:] == MAGIC else deserializer.plain
    if deserializer is None:
        return data
    try:
        return deserializer(data)
    except Exception:
        logging.getLogger("grpc._common").exception("Exception deserializing message!")
        return None


class Pool:
    """A server's thread pool, in which jobs are put by the interpreter's own ``submit``, a function less per call than by ours: the library
    runs each call in a context of its own, so there is no scope to hand on."""

    def __init__(self, pool: Any, submit: Any) -> None:
        self._pool = pool
        self.submit = functools.partial(submit, pool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    @staticmethod
    def around(pool: Any) -> Any:
        """The pool itself if anybody but us has a hand in its ``submit``."""
        ours, stock = executor_submit()
        plain = ours is not None and getattr(type(pool), "submit", None) is ours and "submit" not in vars(pool)
        return Pool(pool, stock) if plain else pool


def takes_fields(options: Any) -> bool:
    """Whether a server with these options receives messages with envelopes behind them."""
    return status.receive_limit(options) >= status.SERVER_LIMIT


def _method_name(rpc_event: Any, args: Tuple[Any, ...]) -> str:
    """Newer versions keep the name of a registered method with its handler instead of with the call."""
    known = getattr(args[0], "name", None) if args else None
    name = known() if callable(known) else None
    return name or str(rpc_event.call_details.method, "utf-8", "replace")


def interest() -> Callable[[Any], bool]:
    """A quick look at a request's metadata: whether it may get a scope. Every request pays for it."""
    if runtime().entry.one_in:
        return lambda metadata: metadata is not None

    def carries(metadata: Any) -> bool:
        for pair in metadata or ():
            if pair[0] in _KEYS:
                return True
        return False

    return carries


_KEYS = frozenset((GRPC_KEY, BAGGAGE))
