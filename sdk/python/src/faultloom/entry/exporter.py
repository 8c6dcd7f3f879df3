"""Exports finished histories to an OpenTelemetry collector: OTLP over HTTP, JSON, on a thread of its own.

Replies never wait for it: histories go into a queue, and one that finds the queue full is dropped. The thread runs in
an empty context, so that its requests are never part of a traced request. A forked process starts with an empty queue
and a new thread.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections import deque
from typing import Deque, List, NamedTuple, Optional

from ..log import warn
from ..wire.errors import FaultloomError
from ..wire.history import HISTORY_BYTES, decode_history, truncate_history
from ..wire.otlp import TracedHistory, encode
from .endpoint import Endpoint

QUEUE_MAX = 256
BATCH_MAX = 64
BATCH_SECONDS = 1.0
SEND_SECONDS = 5.0
EXIT_SECONDS = 1.0
#: shortest time between two warnings about dropped histories
WARNING_SECONDS = 60.0


class _Finished(NamedTuple):
    trace: bytes
    has_parent: bool
    history: bytes


class Exporter:
    """Thread-safe; ``add`` takes a few microseconds."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._warned_at = -WARNING_SECONDS
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self._flush_at_exit)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._queue: Deque[_Finished] = deque()
        self._thread: Optional[threading.Thread] = None
        self._dropped = 0
        self._is_stopping = False

    def add(self, trace: bytes, has_parent: bool, history: bytes) -> None:
        """Queues a history. Never blocks, never raises."""
        with self._changed:
            is_full = self._is_stopping or len(self._queue) >= QUEUE_MAX
            if is_full:
                self._dropped += 1
            else:
                self._queue.append(_Finished(trace, has_parent, history))
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, daemon=True, name="faultloom-export")
                try:
                    # in an empty context: the thread must not inherit the scope of the request that happens to be first
                    contextvars.Context().run(self._thread.start)
                except RuntimeError:  # the interpreter shuts down, or no more threads can be started
                    self._thread = None
            elif len(self._queue) in (1, BATCH_MAX):
                self._changed.notify()
        if is_full:
            self._warn_about_drops()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._is_stopping:
                    self._changed.wait()
                if not self._queue:
                    return
                due = time.monotonic() + BATCH_SECONDS
                while len(self._queue) < BATCH_MAX and not self._is_stopping:
                    left = due - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
            try:
                accepted = self._send(batch)
            except Exception:
                accepted = False
            if not accepted:
                with self._changed:
                    self._dropped += len(batch)
                self._warn_about_drops()

    def _send(self, batch: List[_Finished]) -> bool:
        import http.client

        histories = []
        for finished in batch:
            try:
                truncated = truncate_history(finished.history, HISTORY_BYTES)
                histories.append(TracedHistory(finished.trace, finished.has_parent, decode_history(truncated or b"")))
            except FaultloomError:
                with self._changed:
                    self._dropped += 1
        endpoint = self._endpoint
        connection_class = http.client.HTTPSConnection if endpoint.tls else http.client.HTTPConnection
        connection = connection_class(endpoint.host, endpoint.port, timeout=SEND_SECONDS)
        try:
            connection.request("POST", endpoint.path, encode(histories), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            reply.read(65_536)
            return 200 <= reply.status <= 299
        finally:
            connection.close()

    def _warn_about_drops(self) -> None:
        with self._changed:
            now = time.monotonic()
            if not self._dropped or now - self._warned_at < WARNING_SECONDS:
                return
            dropped, self._dropped, self._warned_at = self._dropped, 0, now
        warn(f"{dropped} histories were not exported (the collector did not accept them, or was too slow)")

    def _flush_at_exit(self) -> None:
        """Sends what is queued, for at most a second."""
        with self._changed:
            self._is_stopping = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(EXIT_SECONDS)
