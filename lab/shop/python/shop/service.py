"""Settings, server and shutdown of the shop's Python services.

Settings come from the environment: PORT (required), BIND (127.0.0.1), and one
NAME_ADDR per dependency (required), each host:port. A service runs until
SIGTERM or SIGINT. Calls in progress then have one and a half seconds to end.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

#: Seconds that calls in progress may delay a shutdown.
STOP_TIMEOUT_S = 1.5
#: Timeout of calls to other services in seconds.
CALL_TIMEOUT_S = 3.0
#: Calls that one service handles at the same time.
WORKERS = 16


class SettingError(Exception):
    """A setting is missing or invalid. The message names it."""


def address(key: str) -> str:
    """The host:port in the environment variable `key`, such as CATALOGUE_ADDR."""
    value = os.environ.get(key, "")
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdigit()):
        raise SettingError(f"{key} must be host:port, not {value!r}")
    return value


def own_address() -> str:
    """The host:port this process serves on."""
    port = os.environ.get("PORT", "")
    if not port.isdigit() or int(port) > 65535:
        raise SettingError(f"PORT must be a port number, not {port!r}")
    return f"{os.environ.get('BIND') or '127.0.0.1'}:{port}"


def dial(target: str) -> grpc.Channel:
    """A channel to `target`. Calls fail immediately while the service is down and
    are not retried; a restarted service is reconnected within half a second."""
    return grpc.insecure_channel(
        target,
        options=[
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 400),
        ],
    )


def call_timeout_s(context: grpc.ServicerContext) -> float:
    """The timeout in seconds of a call made on behalf of `context`, limited by the
    caller's deadline."""
    remaining = context.time_remaining()
    return CALL_TIMEOUT_S if remaining is None else min(CALL_TIMEOUT_S, remaining)


def make_server(register: Callable[[grpc.Server], None]) -> tuple[grpc.Server, health.HealthServicer]:
    """A server with the services that `register` adds and the standard health service."""
    server = grpc.server(
        ThreadPoolExecutor(max_workers=WORKERS),
        options=[("grpc.so_reuseport", 0)],
    )
    register(server)
    health_servicer = health.HealthServicer()
    health_servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    return server, health_servicer


def run(name: str, build: Callable[[], Callable[[grpc.Server], None]]) -> None:
    """Serve what `build` registers until SIGTERM or SIGINT.

    If `build` raises SettingError or the port is in use, the process exits with
    status 1 and one line on stderr.
    """
    # not an Event: its lock would deadlock if a signal arrived just as the main thread began to wait
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.put(received))
    try:
        listen = own_address()
        server, health_servicer = make_server(build())
        server.add_insecure_port(listen)
    except (SettingError, RuntimeError) as error:
        sys.exit(f"{name}: {error}")
    server.start()
    signals.get()
    health_servicer.enter_graceful_shutdown()
    server.stop(STOP_TIMEOUT_S).wait()
