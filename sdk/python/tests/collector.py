"""A strict OTLP/HTTP receiver: anything that a real collector could reject is an error."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, List

SPAN = {"attributes", "endTimeUnixNano", "kind", "name", "parentSpanId", "spanId", "startTimeUnixNano", "status", "traceId"}
VALUES = {"stringValue": str, "intValue": str, "boolValue": bool}


def check(request: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The spans of a request, each with its service. Raises AssertionError."""
    assert set(request) == {"resourceSpans"} and request["resourceSpans"]
    spans: List[Dict[str, Any]] = []
    services = []
    for resource in request["resourceSpans"]:
        assert set(resource) == {"resource", "scopeSpans"}
        ((attribute,),) = resource["resource"].values()
        assert attribute["key"] == "service.name"
        services.append(attribute["value"]["stringValue"])
        (scope,) = resource["scopeSpans"]
        assert scope["scope"] == {"name": "faultloom"} and scope["spans"]
        for span in scope["spans"]:
            check_span(span)
            spans.append({**span, "service": services[-1]})
    assert len(services) == len(set(services))
    ids = [span["spanId"] for span in spans]
    assert len(ids) == len(set(ids))
    return spans


def check_span(span: Dict[str, Any]) -> None:
    assert SPAN - {"parentSpanId"} <= set(span) <= SPAN
    assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16)
    assert re.fullmatch("[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16)
    assert re.fullmatch("[0-9a-f]{16}", span.get("parentSpanId", "1" * 16))
    assert re.fullmatch("[0-9]{16,19}", span["startTimeUnixNano"]) and int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"])
    assert span["kind"] in (2, 3) and isinstance(span["name"], str) and span["name"]
    assert span["status"] in ({}, {"code": 2})
    keys = [attribute["key"] for attribute in span["attributes"]]
    assert len(keys) == len(set(keys))
    for attribute in span["attributes"]:
        ((kind, value),) = attribute["value"].items()
        assert set(attribute) == {"key", "value"} and type(value) is VALUES[kind]
        assert kind != "intValue" or re.fullmatch("[0-9]+", value)


class Collector:
    """``spans``: what arrived. ``fail`` makes it answer 503, ``silent`` not at all."""

    def __init__(self) -> None:
        self.spans: List[Dict[str, Any]] = []
        self.batches: List[int] = []
        self.headers: List[Dict[str, str]] = []
        self.errors: List[str] = []
        self.fail = False
        self.silent = threading.Event()
        self.silent.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.silent.wait(30)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    assert self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
                    assert body == json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
                    spans = check(json.loads(body))
                    if not outer.fail:
                        outer.batches.append(len({span["traceId"] for span in spans}))
                        outer.spans.extend(spans)
                except Exception as error:
                    outer.errors.append(f"{type(error).__name__}: {error}: {body[:2000]!r}")
                self.send_response(503 if outer.fail else 200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def of(self, service: str) -> List[Dict[str, Any]]:
        return [span for span in self.spans if span["service"] == service]

    def stop(self) -> None:
        self.silent.set()
        self._server.shutdown()
        self._server.server_close()
        assert not self.errors, self.errors
