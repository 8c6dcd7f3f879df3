"""A service of the chain that the tracing bench measures, in Python: the counterpart of ``../chain/node.go``.

    python node.py node [NEXT [CALLS]]     calls address NEXT, CALLS times per request (default 1)

The same file runs untraced, with Faultloom's SDK (``PYTHONPATH=…/sdk/python/src/faultloom/boot``), and with
OpenTelemetry's (``CHAIN_TRACING=otel``). It prints one JSON line when it is ready, then replies to commands on its
input:

    cpu      {"cpu_us": user and system time of this process so far}
    flush    OpenTelemetry exports its batches now, so that their cost is not measured in another window
"""

from __future__ import annotations

import json
import os
import resource
import sys
from concurrent import futures
from typing import Any, Callable, Optional


def opentelemetry() -> Callable[[], Any]:
    """Sets up OpenTelemetry as documented: default batches, W3C headers.

    Returns the function that exports the batches.
    """
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    GrpcInstrumentorServer().instrument()
    GrpcInstrumentorClient().instrument()
    return provider.force_flush


tracing = os.environ.get("CHAIN_TRACING", "")
if tracing not in ("", "otel"):
    sys.exit(f"node.py: CHAIN_TRACING={tracing} is not supported")
flush = opentelemetry() if tracing else None

import chain_pb2  # noqa: E402
import chain_pb2_grpc  # noqa: E402
import grpc  # noqa: E402

CLIENTS = 32  # of the load generator; a handler that waits for the next service holds its thread


class Chain(chain_pb2_grpc.ChainServicer):
    """Forwards a parcel if there is a next service, and returns the receipt with one more hop."""

    def __init__(self, next_: Optional[chain_pb2_grpc.ChainStub], calls: int) -> None:
        self._next = next_
        self._calls = calls

    def Forward(self, request: Any, context: Any) -> Any:
        if self._next is None:
            return chain_pb2.Receipt(id=request.id, hops=request.hops + 1, items=request.items)
        for _ in range(self._calls):
            receipt = self._next.Forward(chain_pb2.Parcel(id=request.id, hops=request.hops + 1, items=request.items))
        return chain_pb2.Receipt(id=receipt.id, hops=receipt.hops, items=receipt.items)


def cpu_us() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int((used.ru_utime + used.ru_stime) * 1_000_000)


def control(ready: Any) -> None:
    """Executes commands until standard input ends."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["cpu"]:
            reply: Any = {"cpu_us": cpu_us()}
        elif words == ["flush"] and flush is not None:
            flush()
            reply = {}
        else:
            sys.exit(f"node.py: unknown command {line.strip()!r}")
        print(json.dumps(reply), flush=True)


def main(role: str, *rest: str) -> None:
    if role != "node" or len(rest) > 2:
        sys.exit("usage: node.py node [NEXT [CALLS]]")
    next_ = chain_pb2_grpc.ChainStub(grpc.insecure_channel(rest[0])) if rest else None
    server = grpc.server(futures.ThreadPoolExecutor(CLIENTS))
    chain_pb2_grpc.add_ChainServicer_to_server(Chain(next_, int(rest[1]) if len(rest) > 1 else 1), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    control({"address": f"127.0.0.1:{port}"})
    os._exit(0)  # the input has ended: spans not exported yet are not needed


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
