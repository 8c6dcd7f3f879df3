"""grpcio's synchronous server: opens the scope of a call, and replaces the application's handler by ours (``handler``).

The hook wraps the library's handler lookup, so that the application's interceptors and handlers run inside the scope. A
server without interceptors that has all its methods by name gets our handlers in place of its own instead: the lookup
returns ours, and an untraced request takes no additional step.

If the envelope of a call is in its message, its interceptors run before the scope is opened. A server whose
interceptors were observed to send a traced call therefore stops announcing that it accepts envelopes in messages.
"""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
from threading import get_ident
from typing import Any, Callable, Optional, Set, Tuple

from grpc._utilities import DictionaryGenericHandler, RpcMethodHandler

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.scope import Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.bridge import BAGGAGE
from ...wire.carriers import GRPC_KEY, MAGIC
from ...wire.history import TAKES_FIELD
from ..patching import Patch
from ..process import this_process
from ..threads import executor_submit
from . import status
from .handler import CACHE_ATTRIBUTES, EnvelopeCutter, cache_on, handler_for, traced_handler


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc._server."""
    lookup = HandlerLookup(patch, module)
    serve, init, add = module._serve, module._Server.__init__, module._Server.add_generic_rpc_handlers

    def traced_init(self: Any, thread_pool: Any, handlers: Any, interceptors: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        init(self, DirectPool.around(thread_pool), handlers, interceptors, options, *args, **kwargs)
        self._state._faultloom_takes = takes_fields(options)

    def traced_add(self: Any, handlers: Any) -> None:
        add(self, handlers)
        lookup.handlers_added(self._state)

    def traced_serve(state: Any, *args: Any) -> None:
        lookup.begin(state)
        try:
            serve(state, *args)
        finally:
            lookup.end()

    assert isinstance(module._RPCState().context, contextvars.Context)
    patch.replace(module._Server, "__init__", traced_init)
    patch.replace(module._Server, "add_generic_rpc_handlers", traced_add)
    patch.replace(module, "_serve", traced_serve)
    common = module._common
    if hasattr(common, "_transform"):
        patch.replace(common, "deserialize", deserialize)


class HandlerLookup:
    """The lookup of handlers, which opens scopes. Each server has one thread that looks handlers up."""

    def __init__(self, patch: Patch, module: Any) -> None:
        self._patch, self._module = patch, module
        self._find = module._find_method_handler
        self._method = getattr(module, "_RegisteredMethod", None)
        self._lock = threading.Lock()
        self._wraps_lookup = self._replaces_method = False
        #: threads of servers that announce that they accept envelopes in messages
        self._taking_threads: Set[int] = set()
        #: threads of servers that have our handlers in place of their own
        self._replaced_threads: Set[int] = set()

    def begin(self, state: Any) -> None:
        """This thread begins to serve the server with this ``state``."""
        takes = getattr(state, "_faultloom_takes", False)
        if takes:
            self._taking_threads.add(get_ident())
        if self._method is not None and has_only_named_handlers(state):
            handlers = state.registered_method_handlers
            for name, handler in handlers.items():
                handlers[name] = handler_in_place(handler, takes)
            state._faultloom_replaced = True
            self._replaced_threads.add(get_ident())
            self._replace_method()
        else:
            self._wrap_lookup()

    def end(self) -> None:
        self._taking_threads.discard(get_ident())
        self._replaced_threads.discard(get_ident())

    def handlers_added(self, state: Any) -> None:
        """A server may get handlers while it serves. Those that have no names can only be looked up."""
        if getattr(state, "_faultloom_replaced", False) and not has_only_named_handlers(state):
            self._wrap_lookup()

    def _wrap_lookup(self) -> None:
        with self._lock:
            if not self._wraps_lookup:
                self._wraps_lookup = True
                self._patch.replace(self._module, "_find_method_handler", self._traced_lookup())

    def _replace_method(self) -> None:
        with self._lock:
            if not self._replaces_method:
                self._replaces_method = True
                self._patch.replace(self._method, "handler", self._traced_method())

    def _traced_lookup(self) -> Callable[..., Any]:
        find, taking, replaced = self._find, self._taking_threads, self._replaced_threads
        samples, open_grpc_scope = this_process().entry.sample_one_in > 0, this_process().open_grpc_scope

        def find_and_trace(rpc_event: Any, state: Any, *args: Any) -> Any:
            if get_ident() in replaced and args[0].name():
                return find(rpc_event, state, *args)
            metadata = rpc_event.invocation_metadata
            scope: Optional[Scope] = None
            if samples:
                scope = open_grpc_scope(metadata) if metadata is not None else None
            else:
                for pair in metadata or ():
                    if pair[0] in _KEYS:
                        scope = open_grpc_scope(metadata)
                        break
            if scope is None:
                if OPEN_SCOPES:
                    state.context.run(IN_UNTRACED_REQUEST.set, True)
                handler = find(rpc_event, state, *args)
            else:
                if scope.destination is not None or not scope.envelope.history:
                    scope.call_name = _method_name(rpc_event, args)
                # the call has a context of its own, in which its interceptors, handler and serializer run
                state.context.run(CURRENT_SCOPE.set, scope)
                handler = find(rpc_event, state, *args)
                if scope.calls:
                    taking.discard(get_ident())
            takes = get_ident() in taking
            # most handlers are created once and serve many calls
            return getattr(handler, CACHE_ATTRIBUTES[takes], None) or handler_for(handler, scope, takes)

        return find_and_trace

    def _traced_method(self) -> Callable[..., Any]:
        replaced, open_grpc_scope, samples = self._replaced_threads, this_process().open_grpc_scope, this_process().entry.sample_one_in > 0

        def handler(self: Any, details: Any) -> Any:
            if not samples:
                for pair in details.invocation_metadata or ():
                    if pair[0] in _KEYS:
                        break
                else:
                    if OPEN_SCOPES:
                        IN_UNTRACED_REQUEST.set(True)  # the library looks handlers up in the call's own context
                    return self._registered_handler
            registered = self._registered_handler
            if get_ident() not in replaced:
                return registered
            scope = open_grpc_scope(details.invocation_metadata)
            if scope is None:
                if OPEN_SCOPES:
                    IN_UNTRACED_REQUEST.set(True)
                return registered
            if scope.destination is not None or not scope.envelope.history:
                scope.call_name = self.name()
            CURRENT_SCOPE.set(scope)
            return getattr(registered, CACHE_ATTRIBUTES[False], None) or handler_for(registered, scope, False)

        return handler


def has_only_named_handlers(state: Any) -> bool:
    """Whether a server has a handler for each of its methods, by name, and no interceptors."""
    named = state.registered_method_handlers
    if state.interceptor_pipeline is not None or any(type(handler) is not RpcMethodHandler for handler in named.values()):
        return False
    return all(
        type(generic) is DictionaryGenericHandler and generic._method_handlers.keys() <= named.keys() for generic in state.generic_handlers
    )


def handler_in_place(handler: Any, takes: bool) -> Any:
    """Our handler for a unary method.

    Others keep the application's, and a traced call gets one of its own from that.
    """
    behavior = handler.unary_unary
    if behavior is None or getattr(behavior, "experimental_non_blocking", False):
        return handler
    ours = traced_handler(handler, behavior, TAKES_FIELD if takes else 0)
    cache_on(ours, CACHE_ATTRIBUTES[False], ours)
    return ours


def deserialize(data: bytes, deserializer: Optional[Callable[[bytes], Any]]) -> Any:
    """Replaces the library's ``_common.deserialize``, which takes one function call more.

    That makes up for our deserializer: an untraced request takes no more function calls than without the hook.
    """
    if type(deserializer) is EnvelopeCutter:
        deserializer = deserializer.cut if data[-4:] == MAGIC else deserializer.plain
    if deserializer is None:
        return data
    try:
        return deserializer(data)
    except Exception:
        logging.getLogger("grpc._common").exception("Exception deserializing message!")
        return None


class DirectPool:
    """A server's thread pool whose jobs are submitted by the interpreter's own ``submit``, not by our patch of it.

    The library runs each call in a context of its own, so there is no scope to pass on. Saves a function call per
    request.
    """

    def __init__(self, pool: Any, submit: Any) -> None:
        self._pool = pool
        self.submit = functools.partial(submit, pool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    @staticmethod
    def around(pool: Any) -> Any:
        """The pool itself if anybody else has replaced its ``submit``."""
        ours, original = executor_submit()
        is_plain = ours is not None and getattr(type(pool), "submit", None) is ours and "submit" not in vars(pool)
        return DirectPool(pool, original) if is_plain else pool


def takes_fields(options: Any) -> bool:
    """Whether a server with these options receives messages that carry envelopes."""
    return status.receive_limit(options) >= status.SERVER_LIMIT


def _method_name(rpc_event: Any, args: Tuple[Any, ...]) -> str:
    """Newer versions keep the name of a registered method with its handler instead of with the call."""
    method_name = getattr(args[0], "name", None) if args else None
    name = method_name() if callable(method_name) else None
    return name or str(rpc_event.call_details.method, "utf-8", "replace")


def metadata_check() -> Callable[[Any], bool]:
    """A fast check of a request's metadata for whether it may get a scope. Every request pays for it."""
    if this_process().entry.sample_one_in:
        return lambda metadata: metadata is not None

    def has_our_keys(metadata: Any) -> bool:
        for pair in metadata or ():
            if pair[0] in _KEYS:
                return True
        return False

    return has_our_keys


_KEYS = frozenset((GRPC_KEY, BAGGAGE))
