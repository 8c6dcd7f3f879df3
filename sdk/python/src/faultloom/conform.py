"""The conformance program of spec/README.md: ``python -m faultloom.conform DIR``.

Prints one line per vector and never reads the expected result. A vector that cannot be run prints ``{"failed":…}``, so
that one bad vector does not hide the others.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, List, Optional

from .hooks.faults import CallResult, fault_effect, reply_effect
from .scope.scope import Scope
from .scope.unscoped import UnscopedCall
from .trust.receiver import Receiver
from .trust.settings import TrustSettings
from .wire import bridge, carriers, otlp
from .wire.call_id import derive_call_id
from .wire.envelope import ACCEPT_FIELD, ACCEPT_TAIL, Envelope, encode_accepts, encode_header
from .wire.errors import FaultloomError
from .wire.history import VERSION, TooManyEvents, decode_counted, decode_history, takes_field, truncate_history
from .wire.names import normalize_http_name, raw_http_name
from .wire.pieces import PieceJoiner
from .wire.plan import Fault
from .wire.selectors import Selector


def _hex(data: Optional[bytes]) -> Optional[str]:
    return None if data is None else data.hex()


def _envelope_json(e: Envelope) -> Dict[str, Any]:
    accept = [name for bit, name in ((ACCEPT_FIELD, "field"), (ACCEPT_TAIL, "tail")) if e.accept & bit]
    return {
        "trace": e.trace.hex(), "run": _hex(e.run), "bridge": e.bridge, "expires": e.expires, "key": e.key, "environment": e.environment,
        "history": e.history, "plan": None if e.plan is None else [fault.to_json() for fault in e.plan],
        "call": f"{e.call:016x}", "accept": accept, "receive_limit": e.receive_limit, "evidence": list(e.evidence),
    }  # fmt: skip


def _receiver(given: Dict[str, Any]) -> Receiver:
    trust = TrustSettings.parse(given["trust"])
    return Receiver(lambda: trust, lambda: float(given["now"]))


def _header(text: str) -> str:
    """A header as servers provide it: one character per byte."""
    return text.encode().decode("latin-1")


def _envelope(given: Dict[str, Any]) -> Dict[str, Any]:
    receiver = _receiver(given)
    results: List[Any] = []
    for attempt in given["attempts"]:
        try:
            values = attempt["values"] if "values" in attempt else [attempt["value"]]
            if attempt["carrier"] == "baggage":
                accepted = receiver.accept_bridged(_header(attempt["value"]), int(attempt["call"], 16), attempt["attempt"])
            elif attempt["carrier"] == "http":
                header = carriers.last_value(map(_header, values))
                assert header is not None
                accepted = receiver.accept_header(header, attempt["attempt"])
            else:
                field = attempt.get("field")  # counts alone, whatever the metadata holds
                accepted = receiver.accept(bytes.fromhex(values[-1] if field is None else field), attempt["attempt"])
            assert accepted is not None
            results.append(_envelope_json(accepted))
        except FaultloomError as error:
            results.append({"error": error.code})
    return {"results": results}


def _scope(given: Dict[str, Any]) -> Dict[str, Any]:
    envelope = _receiver(given).accept(bytes.fromhex(given["envelope"]))
    assert envelope is not None
    trust = TrustSettings.parse(given["trust"])
    at_us = [0]
    scope = Scope(given["service"], envelope, lambda: trust.faults_enabled, given["start_us"], lambda: at_us[0])
    steps: List[Any] = []
    history: Optional[bytes] = None
    joiner = PieceJoiner(envelope.call)
    for step in given["steps"]:
        at_us[0] = step["at_us"]
        result: Dict[str, Any] = {}
        if "send" in step:
            sent = step["send"]
            http = sent["protocol"] == "http"
            name = raw_http_name(*sent["name"].split(" ", 1)) if http else sent["name"]
            peer = given["peers"].get(sent["authority"], sent["authority"])
            accepts = encode_accepts(ACCEPT_TAIL, 0) if http else encode_accepts(ACCEPT_FIELD, 4 << 20)
            begin = scope.begin_inherited_call if sent.get("inherited") else scope.begin_call
            call = begin(http, peer, name, accepts)
            assert call is not None
            result = {
                "call": call.number, "id": f"{call.id:016x}", "fault": call.fault_index,
                "kind": call.fault.kind if call.fault else None, "envelope": _hex(call.envelope),
            }  # fmt: skip
        elif "connected" in step:
            scope.set_connect_time(step["connected"]["call"], step["connected"]["us"])
        elif "unscoped" in step:
            calls = [_unscoped_call(call, given["peers"]) for call in step["unscoped"]["calls"]]
            scope.record_unscoped(calls, step["unscoped"]["more"])
        elif "message" in step:
            result = {"piece": _hex(_joined(joiner, scope.next_piece(step["message"]["bytes"])))}
        elif "respond" in step and given.get("stream"):
            result = {"piece": _hex(_joined(joiner, scope.last_piece(step["respond"]["status"], step["respond"]["name"])))}
            history = joiner.history()
        elif "respond" in step:
            history = scope.finish(step["respond"]["status"], step["respond"]["name"])
        else:
            kind = "reply" if "reply" in step else "failed"
            end = step[kind]
            child = None if end["history"] is None else bytes.fromhex(end["history"])
            record = scope.record_reply if kind == "reply" else scope.record_failure
            record(end["call"], end["status"], child, bool(end.get("gap", False)))
        steps.append(result)
    return {"steps": steps, "history": _hex(history)}


def _unscoped_call(call: Dict[str, Any], peers: Dict[str, str]) -> UnscopedCall:
    http = call["protocol"] == "http"
    name = normalize_http_name(raw_http_name(*call["name"].split(" ", 1))) if http else call["name"]
    return UnscopedCall(http, peers.get(call["authority"], call["authority"]), name, call["site"])


def _joined(joiner: PieceJoiner, piece: Optional[bytes]) -> Optional[bytes]:
    if piece is not None:
        joiner.add(piece)
    return piece


def _join(given: Dict[str, Any]) -> Dict[str, Any]:
    joiner = PieceJoiner(int(given["call"], 16))
    for piece in given["pieces"]:
        joiner.add(bytes.fromhex(piece))
    history = joiner.history()
    return {"history": _hex(history), "complete": history is not None and joiner.is_whole}


def _bridge_out(given: Dict[str, Any]) -> Dict[str, Any]:
    headers = given["headers"]
    text = encode_header(bytes.fromhex(given["envelope"]))
    trace, call = bytes.fromhex(given["trace"]), int(given["call"], 16)
    traceparent, baggage = bridge.inject_bridge(headers.get("traceparent", ""), headers.get("baggage", ""), text, trace, call)
    return {"headers": {"traceparent": traceparent, **({"baggage": baggage} if baggage else {})}}


def _bridge_in(given: Dict[str, Any]) -> Dict[str, Any]:
    headers = given["headers"]
    if carriers.REQUEST_HEADER in headers:
        return {"carrier": "own", "envelope": headers[carriers.REQUEST_HEADER], "call": None}
    found = bridge.extract_bridge(headers.get("traceparent", ""), headers.get("baggage", ""))
    if found is None:
        return {"carrier": "none", "envelope": None, "call": None}
    return {"carrier": "baggage", "envelope": found.envelope, "call": f"{found.call:016x}"}


def _traceparent(text: str) -> Optional[Dict[str, str]]:
    parent = bridge.parse_traceparent(text)
    return None if parent is None else {"trace": parent.trace.hex(), "parent": f"{parent.call:016x}"}


def _otlp(given: Dict[str, Any]) -> Dict[str, Any]:
    try:
        history = decode_history(bytes.fromhex(given["history"]))
    except FaultloomError:
        return {"error": "malformed"}
    return otlp.otlp_request([otlp.TracedHistory(bytes.fromhex(given["trace"]), given["has_parent"], history)])


def _carrier(given: Dict[str, Any]) -> Dict[str, Any]:
    if given["history_bytes"] <= carriers.HEADER_BYTES:
        return {"carrier": "header"}
    may = carriers.allows_tail(given["method"], given["request_headers"], given["status"], given["headers"])
    return {"carrier": "tail" if may and given["complete"] and "tail" in given["accept"] else "truncated_header"}


def _counted(data: bytes, version: int) -> str:
    try:
        decode_counted(data, version)
        return "counted"
    except TooManyEvents:
        return "too_large"
    except FaultloomError:
        return "unreadable"


def _hook(given: Dict[str, Any]) -> Dict[str, Any]:
    protocol, result = given["protocol"], given["result"]
    fault = None if given["fault"] is None else Fault(given["fault"]["kind"], arg=given["fault"]["arg"])
    before = fault_effect(protocol, fault, given["timeout_ms"])
    if not before.sends:
        caller = {"outcome": before.outcome, "status": before.status}
        kind = "reply" if before.outcome == "status" else "call-failed"
        event = {"kind": kind, "status": before.recorded_status, "history": False, "gap": False}
    else:
        is_reply = "failed" not in result
        after = reply_effect(protocol, fault, CallResult(is_reply, result["status" if is_reply else "failed"], result["history"]))
        caller = {"outcome": after.outcome, "status": after.status}
        kind = "reply" if after.is_reply else "call-failed"
        event = {"kind": kind, "status": after.recorded_status, "history": result["history"], "gap": after.is_gap}
    return {"sent": before.sends, "wait_ms": before.wait_ms, "caller": caller, "event": event}


def result(kind: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """The result of a vector of this kind for its input."""
    if kind == "envelope":
        return _envelope(given)
    if kind == "scope":
        return _scope(given)
    if kind == "hook":
        return _hook(given)
    if kind == "history":
        try:
            return decode_history(bytes.fromhex(given["bytes"])).to_json()
        except FaultloomError as error:
            return {"error": error.code}
    if kind == "truncate":
        return {"history": _hex(truncate_history(bytes.fromhex(given["history"]), given["limit"]))}
    if kind in ("field", "tail"):
        end = (carriers.encode_field if kind == "field" else carriers.encode_tail)(bytes.fromhex(given["history"]))
        return {"bytes": given["message"] + end.hex()}
    if kind in ("cut_field", "cut_tail"):
        cut = carriers.cut_field if kind == "cut_field" else carriers.cut_tail
        message, history = cut(bytes.fromhex(given["bytes"]))
        return {"message": message.hex(), "history": _hex(history)}
    if kind == "takes_field":
        return {"takes_field": takes_field(bytes.fromhex(given["history"]))}
    if kind == "match":
        pairs = given["pairs"]
        return {"matches": [Selector(**p["selector"]).matches(p["caller"], p["peer"], p["name"]) for p in pairs]}
    if kind == "name":
        return {"names": [normalize_http_name(raw_http_name(r["method"], r["target"])) for r in given["requests"]]}
    if kind == "carrier":
        return _carrier(given)
    if kind == "call_id":
        parent = int(given["parent"], 16)
        return {"ids": [f"{derive_call_id(parent, number):016x}" for number in given["numbers"]]}
    if kind == "join":
        return _join(given)
    if kind == "bridge_out":
        return _bridge_out(given)
    if kind == "bridge_in":
        return _bridge_in(given)
    if kind == "traceparent":
        return {"values": [_traceparent(value) for value in given["values"]]}
    if kind == "otlp":
        return _otlp(given)
    if kind == "counted":
        data = b"".join(bytes.fromhex(part) * times for part, times in given["parts"])
        return {"result": _counted(data, given.get("version", VERSION))}
    if kind == "last_value":
        return {"value": carriers.last_value(given["lines"])}
    if kind == "corrupt":
        return {"bytes": carriers.corrupt_body(bytes.fromhex(given["bytes"])).hex()}
    raise ValueError(f"unknown vector kind {kind!r}")


def main(arguments: List[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m faultloom.conform DIR", file=sys.stderr)
        return 2
    for group in ("bad", "good"):
        folder = os.path.join(arguments[0], group)
        for file in sorted(name for name in os.listdir(folder) if name.endswith(".json")):
            with open(os.path.join(folder, file), encoding="utf-8") as opened:
                vector = json.load(opened)
            try:
                value = result(vector["kind"], vector["input"])
            except Exception as error:
                value = {"failed": f"{type(error).__name__}: {error}"}
            print(f"{group}/{file[:-5]} {json.dumps(value, sort_keys=True, separators=(',', ':'), ensure_ascii=False)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
