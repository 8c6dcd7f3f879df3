"""Forwards journeys over HTTP and gRPC. See ../README.md."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import requests
from flask import Flask, jsonify, request
from werkzeug.serving import make_server

import relay_pb2_grpc
from relay_pb2 import Journey, Visits

#: Timeout of a call to the next stop in seconds.
CALL_TIMEOUT_S = 5.0

NAME = os.environ["NAME"]
app = Flask(NAME)
channels: dict[str, grpc.Channel] = {}


def visit(stops: list[str]) -> Visits:
    """Visits this relay, then the stops."""
    visits = Visits(names=[NAME])
    if not stops:
        return visits
    kind, _, address = stops[0].partition(" ")
    rest = Visits()
    if kind == "http":
        failure = call_http(address, stops[1:], rest)
    else:
        failure = ""
        try:
            call_grpc(kind, address, Journey(stops=stops[1:]), rest)
        except grpc.RpcError as error:
            failure = f"grpc {error.code().value[0]}"
    visits.names.extend(rest.names)
    visits.failure = failure or rest.failure
    return visits


def call_http(address: str, stops: list[str], rest: Visits) -> str:
    try:
        reply = requests.get(f"http://{address}/relay", params={"stop": stops}, timeout=CALL_TIMEOUT_S)
    except requests.exceptions.Timeout:
        return "timeout"
    except requests.exceptions.RequestException as error:
        return failure_text(error)
    if reply.status_code != 200:
        return f"status {reply.status_code}"
    try:
        page = reply.json()
    except ValueError:
        return "garbled"
    rest.names.extend(page["names"])
    rest.failure = page["failure"]
    return ""


def failure_text(error: BaseException) -> str:
    text = repr(error)
    if "refused" in text:
        return "refused"
    if any(word in text for word in ("reset", "aborted", "RemoteDisconnected", "IncompleteRead")):
        return "reset"
    return text


def call_grpc(kind: str, address: str, journey: Journey, rest: Visits) -> None:
    channel = channels.setdefault(address, None) or grpc.insecure_channel(address)
    channels[address] = channel
    stub = relay_pb2_grpc.RelayStub(channel)
    if kind == "watch":
        replies: Iterable[Visits] = stub.Watch(journey, timeout=CALL_TIMEOUT_S)
    elif kind == "collect":
        replies = [stub.Collect(iter([journey, journey]), timeout=CALL_TIMEOUT_S)]
    elif kind == "talk":
        replies = stub.Talk(iter([journey, journey]), timeout=CALL_TIMEOUT_S)
    else:
        replies = [stub.Call(journey, timeout=CALL_TIMEOUT_S)]
    for reply in replies:
        add(rest, reply)


def add(total: Visits, visits: Visits) -> None:
    total.names.extend(visits.names)
    total.failure = total.failure or visits.failure


@app.get("/relay")
def page():
    visits = visit(request.args.getlist("stop"))
    return jsonify(names=list(visits.names), failure=visits.failure)


@app.get("/healthz")
def healthy():
    return ""


class Relay(relay_pb2_grpc.RelayServicer):
    def Call(self, journey: Journey, context: grpc.ServicerContext) -> Visits:
        return visit(list(journey.stops))

    def Watch(self, journey: Journey, context: grpc.ServicerContext) -> Iterator[Visits]:
        for _ in range(2):
            yield visit(list(journey.stops))

    def Collect(self, journeys: Iterator[Journey], context: grpc.ServicerContext) -> Visits:
        total = Visits()
        for journey in journeys:
            add(total, visit(list(journey.stops)))
        return total

    def Talk(self, journeys: Iterator[Journey], context: grpc.ServicerContext) -> Iterator[Visits]:
        for journey in journeys:
            yield visit(list(journey.stops))


def main() -> None:
    # not an Event: its lock would deadlock if a signal arrived just as the main thread began to wait
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.put(received))
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=[("grpc.so_reuseport", 0)])
    relay_pb2_grpc.add_RelayServicer_to_server(Relay(), server)
    server.add_insecure_port(f"127.0.0.1:{os.environ['GRPC_PORT']}")
    server.start()
    web = make_server("127.0.0.1", int(os.environ["PORT"]), app, threaded=True)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    signals.get()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
