"""grpc.aio's client: unary calls, under the application's own interceptors (streams are in ``grpc_aio_stream.py``).

The library makes one ``UnaryUnaryCall`` per call, innermost of all interceptors; we let it make a subclass. Inside a
scope the subclass adds the envelope, cuts the history off before deserializing, and lets a fault decide the status in
place of the library's own call object. An envelope that goes behind the message is put there just before the library
would serialize it.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import Any, Callable, Dict, List, Optional

import grpc
from grpc._cython import cygrpc
from grpc.aio._call import UnaryUnaryCall

from ..carriers import GRPC_KEY, cut_field
from ..context import current
from ..history import HEAD_BYTES, TAKES_FIELD
from ..runtime import hold_async, wait_seconds
from ..scope import Scope, Send
from . import grpc_status as status
from .grpc_aio_stream import BASES, traced
from .grpc_client import METADATA_ONLY, Callee, Reply, Target, serialized, target_of
from .patching import Patch

#: by id of the library's inner channel, which is all that a call gets to see
_targets: Dict[int, Target] = {}


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc.aio._channel."""
    from grpc.aio import _interceptor

    init = module.Channel.__init__

    def init_and_note(self: Any, target: str, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        init(self, target, options, *args, **kwargs)
        key = id(self._channel)
        _targets[key] = target_of(target, status.receive_limit(options), status.sends_fields(options))
        weakref.finalize(self, _targets.pop, key, None)

    assert module.UnaryUnaryCall is UnaryUnaryCall and _interceptor.UnaryUnaryCall is UnaryUnaryCall
    patch.replace(module.Channel, "__init__", init_and_note)
    patch.replace(module, "UnaryUnaryCall", TracedUnaryUnaryCall)
    patch.replace(_interceptor, "UnaryUnaryCall", TracedUnaryUnaryCall)
    for name, base in BASES.items():
        assert getattr(module, name) is base and getattr(_interceptor, name) is base
        cls = traced(base, lambda channel: _targets.get(id(channel)))
        patch.replace(module, name, cls)
        patch.replace(_interceptor, name, cls)


class TracedUnaryUnaryCall(UnaryUnaryCall):
    """The library's call; an untraced one behaves exactly like it."""

    _faultloom: Optional[Send] = None
    _faultloom_scope: Scope
    _faultloom_reply: Reply
    _faultloom_callee: Callee = METADATA_ONLY
    #: the envelope may go behind the message; the metadata has none then
    _faultloom_field = False
    _cython_call: Any
    _request: Any
    _request_serializer: Any
    _metadata: Any

    def __init__(self, request: Any, deadline: Any, metadata: Any, credentials: Any, wait_for_ready: Any, channel: Any, method: Any,
                 request_serializer: Any, response_deserializer: Any, loop: Any, *args: Any, **kwargs: Any) -> None:  # fmt: skip
        scope = current()
        target = _targets.get(id(channel))
        if scope is not None and target is not None:
            name = method.decode() if isinstance(method, bytes) else method
            send = scope.send(False, target.peer, name, target.accepts)
            if send is not None:
                self._faultloom, self._faultloom_scope = send, scope
                self._faultloom_deadline = deadline
                self._faultloom_target = target
                response_deserializer = Reply(response_deserializer, send.fault.kind if send.fault else "")
                self._faultloom_reply = response_deserializer
                callees, given = target.callees, scope.envelope
                self._faultloom_callee = callee = (callees and callees.get(name)) or target.callee(name)
                if callee.flag and send.envelope is not None and given.history and not given.bridge:
                    self._faultloom_field = True
                    metadata = status.with_own(metadata, None)
                else:
                    metadata = status.outgoing(metadata, scope, send)
        super().__init__(request, deadline, metadata, credentials, wait_for_ready, channel, method,
                         request_serializer, response_deserializer, loop, *args, **kwargs)  # fmt: skip
        if self._faultloom is not None and response_deserializer.kind in _DECIDING:
            self._cython_call = DecidedCall(self._cython_call, deadline)

    async def _invoke(self) -> Any:
        send = self._faultloom
        if send is None:
            return await super()._invoke()
        scope, fault = self._faultloom_scope, send.fault
        if fault is None:
            if self._faultloom_field:
                self._faultloom_serialize(send)
            response = await super()._invoke()
            await self._faultloom_record(send)
            return response
        kind = fault.kind
        try:
            if kind in ("delay", "hang"):
                await hold_async(scope, self._faultloom_wait(wait_seconds(fault)), asyncio.sleep)
        except asyncio.CancelledError:
            if not self.cancelled():
                self.cancel()
            scope.failed(send.number, 1)
            return cygrpc.EOF
        if kind in ("unavailable", "status", "deadline", "reset", "hang"):
            code, details = status.outcome(fault, self._faultloom_target.authority)
            if kind == "status":
                scope.replied(send.number, fault.arg)
            else:
                scope.failed(send.number, status.number_of(code))
            self._cython_call.decide(_status(code, details))
            return cygrpc.EOF
        if self._faultloom_field:
            self._faultloom_serialize(send)
        if kind == "lost-reply":
            return await self._faultloom_lose(send, super()._invoke)
        response = await super()._invoke()
        await self._faultloom_record(send)
        return response

    def _faultloom_serialize(self, send: Send) -> None:
        """Puts the envelope behind the message, or into the metadata if the message is too large or the library shall tell why there is none."""
        data = serialized(self._request, self._request_serializer, send)
        if data is not None:
            self._request, self._request_serializer = data, None
        if not send.in_field:
            self._metadata = (*self._metadata, (GRPC_KEY, send.envelope))

    def _faultloom_wait(self, seconds: float) -> float:
        deadline = self._faultloom_deadline
        return seconds if deadline is None else max(0.0, min(seconds, deadline - time.time()))

    async def _faultloom_record(self, send: Send) -> None:
        ended = await self._cython_call.status()
        code = status.number_of(ended.code())
        history = self._faultloom_reply.history
        if history is None:
            history = status.history_in(ended.trailing_metadata(), send.id)
        # of a call that did not end OK the library has dropped the message: what history there is, a trailer told
        replied = code == 0 or status.is_reply(code, history is not None)
        callee = self._faultloom_callee
        if not replied or history is None or len(history) <= HEAD_BYTES or history[HEAD_BYTES] & TAKES_FIELD != callee.flag:
            callee.learn(send, replied, history)
        record = self._faultloom_scope.replied if replied else self._faultloom_scope.failed
        record(send.number, code, history, history is None)

    async def _faultloom_lose(self, send: Send, invoke: Callable[[], Any]) -> Any:
        """The call runs; a reply of whatever status becomes a lost connection, a real failure stays what it is."""
        call = self._cython_call
        response = await invoke()
        if call.real_status is None:  # cancelled
            self._faultloom_callee.learn(send, False, None)
            self._faultloom_scope.failed(send.number, 1, None, True)
            return response
        code = status.number_of(call.real_status.code())
        history = cut_field(call.real_message)[1] if code == 0 and call.real_message is not None else None
        if history is None:
            history = status.history_in(call.real_status.trailing_metadata(), send.id)
        replied = code == 0 or status.is_reply(code, history is not None)
        self._faultloom_callee.learn(send, replied, history)
        self._faultloom_scope.failed(send.number, 14 if replied else code, history, history is None)
        if replied:
            assert send.fault is not None
            call.decide(_status(*status.outcome(send.fault, self._faultloom_target.authority)))
        else:
            call.decide(call.real_status)
        return cygrpc.EOF


_DECIDING = frozenset(("unavailable", "status", "deadline", "reset", "hang", "lost-reply"))


def _status(code: grpc.StatusCode, details: str) -> Any:
    return cygrpc.AioRpcStatus(status.number_of(code), details, (), status.debug_string(code, details))


class DecidedCall:
    """Stands in for the library's inner call when a fault decides the status; has the methods that ``Call`` uses."""

    def __init__(self, inner: Any, deadline: Optional[float]) -> None:
        self._inner = inner
        self._deadline = deadline
        self._initial_metadata = ()
        self._status: Any = None
        self._locally_cancelled = False
        self._ended = asyncio.Event()
        self._callbacks: List[Callable[[], Any]] = []
        self.real_status: Any = None
        self.real_message: Optional[bytes] = None

    def decide(self, ended: Any) -> None:
        if self._status is None:
            self._status = ended
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    async def unary_unary(self, request: bytes, metadata: Any, context: Any = None) -> Any:
        self.real_message = await self._inner.unary_unary(request, metadata, context)
        self.real_status = await self._inner.status()
        return self.real_message

    def done(self) -> bool:
        return self._status is not None

    def is_ok(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return self._status is not None and status.number_of(self._status.code()) == 1

    def is_locally_cancelled(self) -> bool:
        return self._locally_cancelled

    def cancel(self, details: str) -> None:
        if self._status is None:
            self._locally_cancelled = True
            self._inner.cancel(details)
            self.decide(_status(grpc.StatusCode.CANCELLED, details))

    def add_done_callback(self, callback: Callable[[], Any]) -> None:
        if self._status is not None:
            callback()
        else:
            self._callbacks.append(callback)

    def time_remaining(self) -> Optional[float]:
        return None if self._deadline is None else max(0.0, self._deadline - time.time())

    async def status(self) -> Any:
        await self._ended.wait()
        return self._status

    async def initial_metadata(self) -> Any:
        await self._ended.wait()
        return self._initial_metadata
