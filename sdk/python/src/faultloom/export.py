"""Exports finished histories to an OpenTelemetry collector: OTLP/HTTP, JSON, a thread of its own.

A reply never waits for it: a history goes into a queue, and one that finds it full is lost. The thread runs in an empty
context, so what it sends is never part of a request. A process that was forked begins with an empty queue and a
thread of its own.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections import deque
from typing import Deque, List, NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import FaultloomError
from .history import HISTORY_BYTES, decode_history, truncate
from .otlp import Recorded, encode
from .trust import complain

QUEUE_MAX = 256
BATCH_MAX = 64
BATCH_SECONDS = 1.0
SEND_SECONDS = 5.0
EXIT_SECONDS = 1.0
TELL_SECONDS = 60.0


class Endpoint(NamedTuple):
    tls: bool
    host: str
    port: int
    path: str


def parse_endpoint(text: str) -> Optional[Endpoint]:
    """``http://host:port/path`` (or https); None: not understood."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
        return None
    if not text.isascii() or any(c <= " " for c in text):
        return None
    tls = url.scheme == "https"
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return Endpoint(tls, url.hostname, port or (443 if tls else 80), path)


class _Finished(NamedTuple):
    trace: bytes
    has_parent: bool
    history: bytes


class Exporter:
    """Thread-safe; ``add`` takes a few microseconds."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._told = -TELL_SECONDS
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)
        atexit.register(self._finish)

    def _start_anew(self) -> None:
        self._changed = threading.Condition()
        self._queue: Deque[_Finished] = deque()
        self._thread: Optional[threading.Thread] = None
        self._lost = 0
        self._ending = False

    def add(self, trace: bytes, has_parent: bool, history: bytes) -> None:
        """Never waits, never raises."""
        with self._changed:
            if self._ending or len(self._queue) >= QUEUE_MAX:
                self._lost += 1
                full = True
            else:
                full = False
                self._queue.append(_Finished(trace, has_parent, history))
            if self._thread is None and not self._ending:
                self._thread = threading.Thread(target=self._run, daemon=True, name="faultloom-export")
                try:
                    # in a context of its own: the request that happens to come first is none of its business
                    contextvars.Context().run(self._thread.start)
                except RuntimeError:  # the interpreter is ending, or there are no threads left
                    self._thread = None
            elif len(self._queue) in (1, BATCH_MAX):
                self._changed.notify()
        if full:
            self._tell_losses()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._ending:
                    self._changed.wait()
                if not self._queue:
                    return
                due = time.monotonic() + BATCH_SECONDS
                while len(self._queue) < BATCH_MAX and not self._ending:
                    left = due - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
            try:
                sent = self._send(batch)
            except Exception:
                sent = False
            if not sent:
                with self._changed:
                    self._lost += len(batch)
                self._tell_losses()

    def _send(self, batch: List[_Finished]) -> bool:
        import http.client

        histories = []
        for finished in batch:
            try:
                fits = truncate(finished.history, HISTORY_BYTES)
                histories.append(Recorded(finished.trace, finished.has_parent, decode_history(fits or b"")))
            except FaultloomError:
                with self._changed:
                    self._lost += 1
        where = self._endpoint
        make = http.client.HTTPSConnection if where.tls else http.client.HTTPConnection
        connection = make(where.host, where.port, timeout=SEND_SECONDS)
        try:
            connection.request("POST", where.path, encode(histories), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read(65_536)
            return 200 <= answer.status <= 299
        finally:
            connection.close()

    def _tell_losses(self) -> None:
        with self._changed:
            now = time.monotonic()
            if not self._lost or now - self._told < TELL_SECONDS:
                return
            lost, self._lost, self._told = self._lost, 0, now
        complain(f"{lost} histories were not exported (the collector did not take them, or not fast enough)")

    def _finish(self) -> None:
        """Sends what is left, for at most a second more."""
        with self._changed:
            self._ending = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(EXIT_SECONDS)
