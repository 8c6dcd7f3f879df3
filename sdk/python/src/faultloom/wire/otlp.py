"""Histories as OpenTelemetry spans (docs/formats/messages.md, "OTLP"): JSON for OTLP/HTTP, the same from every SDK.

A segment is a server span, each call it sent a client span. A child's spans follow the client span that they belong to.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Union

from .call_id import derive_call_id
from .history import CALL_FAILED, RECV_RESPONSE, SEND_REQUEST, SEND_RESPONSE, UNSCOPED_CALLS, Event, History, Segment
from .primitives import U64

SERVER, CLIENT = 2, 3
ERROR = 2


class TracedHistory(NamedTuple):
    """A finished history with its trace. ``has_parent``: its request had a ``traceparent``."""

    trace: bytes
    has_parent: bool
    history: History


def otlp_request(histories: Iterable[TracedHistory]) -> Dict[str, Any]:
    """One OTLP request: each service is a resource, in the order in which the services first appear."""
    services: Dict[str, List[Dict[str, Any]]] = {}
    for traced in histories:
        spans = _SpanWriter(traced.trace.hex(), services)
        spans.add_segment(traced.history.segment, traced.history.call, "", traced.has_parent)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute("service.name", service)]},
                "scopeSpans": [{"scope": {"name": "faultloom"}, "spans": spans}],
            }
            for service, spans in services.items()
        ]
    }


def encode(histories: Iterable[TracedHistory]) -> bytes:
    """``otlp_request`` as JSON."""
    text = json.dumps(otlp_request(histories), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def _attribute(key: str, value: Union[str, int, bool]) -> Dict[str, Any]:
    if isinstance(value, bool):
        return {"key": key, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"stringValue": value}}


def _nanoseconds(time_us: int) -> str:
    return str(min(time_us * 1000, U64))


def _status(http: bool, status: int) -> Dict[str, Any]:
    return _attribute("http.response.status_code" if http else "rpc.grpc.status_code", status)


class _SpanWriter:
    def __init__(self, trace: str, services: Dict[str, List[Dict[str, Any]]]) -> None:
        self._trace = trace
        self._services = services

    def add_segment(self, segment: Segment, call: int, callers_name: str, has_parent: bool) -> None:
        unscoped = min(U64, sum(event.calls for event in segment.events))
        events = [event for event in segment.events if event.kind != UNSCOPED_CALLS]  # these end nothing
        server = derive_call_id(call, 0)
        spans = self._services.setdefault(segment.service, [])
        answer = next((e for e in events if e.kind == SEND_RESPONSE), None)
        attributes: List[Dict[str, Any]] = []
        failed = False
        if answer is not None:
            http = answer.status >= 100
            attributes.append(_status(http, answer.status))
            failed = answer.status >= 500 if http else answer.status != 0
        if segment.truncated:
            attributes.append(_attribute("faultloom.truncated", True))
        if segment.faults_off:
            attributes.append(_attribute("faultloom.faults_off", True))
        if unscoped:
            attributes.append(_attribute("faultloom.unscoped_calls", unscoped))
        last_us = events[-1].at_us if events else 0
        name = segment.name or callers_name or segment.service
        parent = f"{call:016x}" if has_parent else ""
        spans.append(self._span(SERVER, server, parent, name, segment.start_us, last_us, failed, attributes))
        ended = {event.call: event for event in events if event.kind in (RECV_RESPONSE, CALL_FAILED)}
        for event in events:
            if event.kind == SEND_REQUEST:
                end = ended.get(event.call)
                id = derive_call_id(call, event.call)
                self._add_call(spans, segment, event, end, id, f"{server:016x}", last_us)
                if end is not None and end.child is not None:
                    self.add_segment(end.child, id, event.name, True)

    def _add_call(
        self, spans: List[Dict[str, Any]], segment: Segment, sent: Event, end: Optional[Event], id: int, parent: str, last_us: int
    ) -> None:
        attributes: List[Dict[str, Any]] = []
        call_failed = end is not None and end.kind == CALL_FAILED
        failed = call_failed
        if end is not None:
            http = sent.http and not call_failed
            attributes.append(_status(http, end.status))
            failed = failed or (end.status >= 400 if http else end.status != 0)
        attributes.append(_attribute("peer.service", sent.peer))
        if sent.fault is not None:
            attributes.append(_attribute("faultloom.fault", sent.fault))
        if call_failed:
            attributes.append(_attribute("faultloom.failed", True))
        if end is None or end.gap:
            attributes.append(_attribute("faultloom.gap", True))
        if sent.inherited:
            attributes.append(_attribute("faultloom.inherited", True))
        if end is not None and end.connect_us:
            attributes.append(_attribute("faultloom.connect_us", end.connect_us))
        end_us = last_us if end is None else end.at_us
        start_us = segment.start_us + sent.at_us
        spans.append(self._span(CLIENT, id, parent, sent.name, start_us, end_us - sent.at_us, failed, attributes))

    def _span(
        self, kind: int, id: int, parent: str, name: str, start_us: int, duration_us: int, failed: bool, attributes: List[Dict[str, Any]]
    ) -> Dict[str, Any]:
        span: Dict[str, Any] = {
            "attributes": attributes,
            "endTimeUnixNano": _nanoseconds(start_us + duration_us),
            "kind": kind,
            "name": name,
            "spanId": f"{id:016x}",
            "startTimeUnixNano": _nanoseconds(start_us),
            "status": {"code": ERROR} if failed else {},
            "traceId": self._trace,
        }
        if parent:
            span["parentSpanId"] = parent
        return span
