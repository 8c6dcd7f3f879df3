"""Servers on free loopback ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import pytest

from shop import service

Serve = Callable[[Callable[[grpc.Server], None]], grpc.Channel]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that serves what its argument registers, and returns a
    channel to it."""
    servers: list[grpc.Server] = []
    channels: list[grpc.Channel] = []

    def start(register: Callable[[grpc.Server], None]) -> grpc.Channel:
        server, _ = service.make_server(register)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        channels.append(service.dial(f"127.0.0.1:{port}"))
        return channels[-1]

    yield start
    for channel in channels:
        channel.close()
    for server in servers:
        server.stop(None).wait()
