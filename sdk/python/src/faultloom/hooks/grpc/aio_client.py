"""grpc.aio's client: unary calls, below the application's own interceptors (streams: ``aio_stream``).

The library creates one ``UnaryUnaryCall`` per call, below all interceptors. The hook makes it create a subclass. Inside
a scope the subclass adds the envelope, cuts the history off before deserialization, and replaces the status of the
library's inner call if a fault determines it. An envelope in a field is added just before the library would serialize
the message.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import Any, Callable, Dict, List, Optional

import grpc
from grpc._cython import cygrpc
from grpc.aio._call import UnaryUnaryCall

from ...scope.fault_wait import wait_for_fault_async
from ...scope.scope import OutgoingCall, Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.carriers import GRPC_KEY, cut_field
from ...wire.history import HEAD_BYTES, TAKES_FIELD
from ..faults import (
    CANCELED, LOST, NO_FAULT, RESET, CallResult, FaultEffect, fault_effect, record_effect, record_unsent, reply_effect,
    to_timeout_ms,
)  # fmt: skip
from ..patching import Patch
from . import status
from .aio_stream import STREAM_CALLS, traced
from .client import ReplyDeserializer, serialize_with_envelope
from .target import METADATA_ONLY, Callee, Target, target_for

#: by id of the library's inner channel, the only part of the channel that a call has
_targets: Dict[int, Target] = {}


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc.aio._channel."""
    from grpc.aio import _interceptor

    init = module.Channel.__init__

    def init_with_target(self: Any, target: str, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        init(self, target, options, *args, **kwargs)
        key = id(self._channel)
        _targets[key] = target_for(target, status.receive_limit(options), status.sends_fields(options))
        weakref.finalize(self, _targets.pop, key, None)

    assert module.UnaryUnaryCall is UnaryUnaryCall and _interceptor.UnaryUnaryCall is UnaryUnaryCall
    patch.replace(module.Channel, "__init__", init_with_target)
    patch.replace(module, "UnaryUnaryCall", TracedUnaryUnaryCall)
    patch.replace(_interceptor, "UnaryUnaryCall", TracedUnaryUnaryCall)
    for name, base in STREAM_CALLS.items():
        assert getattr(module, name) is base and getattr(_interceptor, name) is base
        cls = traced(base, lambda channel: _targets.get(id(channel)))
        patch.replace(module, name, cls)
        patch.replace(_interceptor, name, cls)


class TracedUnaryUnaryCall(UnaryUnaryCall):
    """The library's call; an untraced one behaves exactly like it."""

    _faultloom_call: Optional[OutgoingCall] = None
    _faultloom_scope: Scope
    _faultloom_reply: ReplyDeserializer
    _faultloom_callee: Callee = METADATA_ONLY
    _faultloom_effect: FaultEffect
    _faultloom_authority: str
    #: the envelope goes into a field of the message, so the metadata has none
    _faultloom_uses_field = False
    # attributes of the library
    _cython_call: Any
    _request: Any
    _request_serializer: Any
    _metadata: Any

    def __init__(self, request: Any, deadline: Any, metadata: Any, credentials: Any, wait_for_ready: Any, channel: Any, method: Any,
                 request_serializer: Any, response_deserializer: Any, loop: Any, *args: Any, **kwargs: Any) -> None:  # fmt: skip
        target = _targets.get(id(channel)) if OPEN_SCOPES else None
        if target is not None:
            name = method.decode() if isinstance(method, bytes) else method
            scope, call = target.begin_call(name)
            if scope is not None and call is not None:
                self._faultloom_call, self._faultloom_scope = call, scope
                self._faultloom_authority = target.authority
                effect = NO_FAULT
                if call.fault is not None:
                    left = None if deadline is None else deadline - time.time()
                    effect = fault_effect("grpc", call.fault, to_timeout_ms(left))
                self._faultloom_effect = effect
                self._faultloom_reply = response_deserializer = ReplyDeserializer(response_deserializer, effect.outcome)
                callees, accepted = target.callees, scope.envelope
                self._faultloom_callee = callee = (callees and callees.get(name)) or target.callee(name)
                if callee.flag and call.envelope is not None and accepted.history and not accepted.bridge:
                    self._faultloom_uses_field = True
                    metadata = status.with_own(metadata, None)
                else:
                    metadata = status.outgoing_metadata(metadata, scope, call)
        super().__init__(request, deadline, metadata, credentials, wait_for_ready, channel, method,
                         request_serializer, response_deserializer, loop, *args, **kwargs)  # fmt: skip
        if self._faultloom_call is not None and (not effect.sends or effect.outcome == LOST):
            self._cython_call = DecidedCall(self._cython_call, deadline)

    async def _invoke(self) -> Any:
        call = self._faultloom_call
        if call is None:
            return await super()._invoke()
        if call.fault is not None and not await self._faultloom_wait(call):
            return cygrpc.EOF
        if self._faultloom_uses_field:
            self._faultloom_serialize(call)
        if self._faultloom_effect.outcome == LOST:
            return await self._faultloom_lose(call, super()._invoke)
        response = await super()._invoke()
        await self._faultloom_record(call)
        return response

    async def _faultloom_wait(self, call: OutgoingCall) -> bool:
        """Applies the fault before the request is sent. False: the call has ended, and is recorded."""
        scope, effect = self._faultloom_scope, self._faultloom_effect
        if effect.wait_ms:
            try:
                completed = await wait_for_fault_async(scope, effect.wait_ms / 1000, asyncio.sleep)
            except asyncio.CancelledError:
                if not self.cancelled():
                    self.cancel()
                scope.record_failure(call.number, CANCELED)
                return False
        else:
            completed = True
        if effect.sends_after_wait(completed):
            if not effect.sends:
                self._cython_call = self._cython_call.release()
            return True
        record_unsent(scope, call.number, effect)
        self._cython_call.decide(_status(*status.not_sent_error(effect, self._faultloom_authority)))
        return False

    def _faultloom_serialize(self, call: OutgoingCall) -> None:
        """Adds the envelope to the message, or to the metadata if the message is too large or cannot be serialized."""
        data = serialize_with_envelope(self._request, self._request_serializer, call)
        if data is not None:
            self._request, self._request_serializer = data, None
        if not call.in_field:
            self._metadata = (*self._metadata, (GRPC_KEY, call.envelope))

    async def _faultloom_record(self, call: OutgoingCall) -> None:
        ended = await self._cython_call.status()
        code = status.number_of(ended.code())
        history = self._faultloom_reply.history
        if history is None:
            history = status.history_in(ended.trailing_metadata())
        # the library drops the message of a call that did not end with OK: a history then comes from the trailer
        is_reply = code == 0 or status.is_reply(code, history is not None)
        callee = self._faultloom_callee
        if not is_reply or history is None or len(history) <= HEAD_BYTES or history[HEAD_BYTES] & TAKES_FIELD != callee.flag:
            callee.update(call, is_reply, history)
        record = self._faultloom_scope.record_reply if is_reply else self._faultloom_scope.record_failure
        record(call.number, code, history, history is None)

    async def _faultloom_lose(self, call: OutgoingCall, invoke: Callable[[], Any]) -> Any:
        """Runs a call whose reply is lost."""
        decided, scope = self._cython_call, self._faultloom_scope
        response = await invoke()
        ended = decided.real_status
        if ended is None:  # canceled
            self._faultloom_callee.update(call, False, None)
            scope.record_failure(call.number, CANCELED, None, True)
            return response
        code = status.number_of(ended.code())
        history = cut_field(decided.real_message)[1] if code == 0 and decided.real_message is not None else None
        if history is None:
            history = status.history_in(ended.trailing_metadata())
        is_reply = code == 0 or status.is_reply(code, history is not None)
        self._faultloom_callee.update(call, is_reply, history)
        effect = reply_effect("grpc", call.fault, CallResult(is_reply, code, history is not None))
        record_effect(scope, call.number, effect, history)
        decided.decide(_status(*status.LOST_REPLY) if effect.outcome == RESET else ended)
        return cygrpc.EOF


def _status(code: grpc.StatusCode, details: str) -> Any:
    return cygrpc.AioRpcStatus(status.number_of(code), details, (), status.debug_string(code, details))


class DecidedCall:
    """Replaces the library's inner call when a fault determines the status. Has the methods that ``Call`` uses."""

    def __init__(self, inner: Any, deadline: Optional[float]) -> None:
        self._inner = inner
        self._deadline = deadline
        self._status: Any = None
        self._is_locally_canceled = False
        self._is_released = False
        self._initial_metadata = ()
        self._changed = asyncio.Event()
        self._callbacks: List[Callable[[], Any]] = []
        self.real_status: Any = None
        self.real_message: Optional[bytes] = None

    def decide(self, ended: Any) -> None:
        """Ends the call with this status. Has no effect on one that has ended."""
        if self._status is None:
            self._status = ended
            self._changed.set()
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def release(self) -> Any:
        """The fault does not apply after all: the inner call takes over and is returned."""
        self._is_released = True
        self._changed.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._inner.add_done_callback(callback)
        return self._inner

    async def unary_unary(self, request: bytes, metadata: Any, context: Any = None) -> Any:
        self.real_message = await self._inner.unary_unary(request, metadata, context)
        self.real_status = await self._inner.status()
        return self.real_message

    def done(self) -> bool:
        return self._status is not None

    def is_ok(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return self._status is not None and status.number_of(self._status.code()) == CANCELED

    def is_locally_cancelled(self) -> bool:
        return self._is_locally_canceled

    def cancel(self, details: str) -> None:
        if self._status is None:
            self._is_locally_canceled = True
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
        await self._changed.wait()
        return await self._inner.status() if self._is_released else self._status

    async def initial_metadata(self) -> Any:
        await self._changed.wait()
        return await self._inner.initial_metadata() if self._is_released else self._initial_metadata
