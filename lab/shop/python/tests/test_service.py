from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from shop import service

FOLDER = Path(__file__).parent.parent


def start(name: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"shop.{name}"],
        cwd=FOLDER,
        env={"PATH": os.environ["PATH"], **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.mark.parametrize("name", ["email", "recommendation"])
def test_process_answers_health_checks_and_stops_on_sigterm(name):
    port = free_port()
    process = start(name, PORT=port, CATALOGUE_ADDR="127.0.0.1:1")
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            reply = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=20
            )
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=10)[1] == ""
        assert process.returncode == 0
        assert time.monotonic() - begin < 2
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "recommendation: PORT must be a port number, not ''\n"),
        ({"PORT": "70000"}, "recommendation: PORT must be a port number, not '70000'\n"),
        ({"PORT": "0", "CATALOGUE_ADDR": "x"}, "recommendation: CATALOGUE_ADDR must be host:port, not 'x'\n"),
    ],
)
def test_invalid_settings_are_named(environment, message):
    process = start("recommendation", **environment)
    assert process.communicate(timeout=20)[1] == message
    assert process.returncode == 1


def test_channel_fails_immediately_and_reconnects_to_a_restarted_service():
    port = free_port()
    with service.dial(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for _ in range(20):
            with pytest.raises(grpc.RpcError) as failed:
                stub.Check(health_pb2.HealthCheckRequest(), timeout=2)
            assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
            time.sleep(0.05)
        server, _ = service.make_server(lambda server: None)
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        begin = time.monotonic()
        stub.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=5)
        assert time.monotonic() - begin < 1
        server.stop(None).wait()
