"""The WSGI side alone, under wsgiref's validator: every way in which an application can reply."""

from __future__ import annotations

import sys
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
from conftest import SIGNER, trust_text

from faultloom import decode_history
from faultloom.hooks import process as hook_process
from faultloom.hooks.http.wsgi import Middleware
from faultloom.scope.current import current_scope
from faultloom.wire.carriers import cut_tail
from faultloom.wire.envelope import decode_header


@pytest.fixture(autouse=True)
def trusted(monkeypatch):
    monkeypatch.setenv("FAULTLOOM_TRUST", trust_text().replace("\n", ";"))
    monkeypatch.setattr(hook_process, "_process", None)


class Served:
    def __init__(self, app, method="GET", accept=2, envelope=True, strict=True, **environ):
        environ = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": "/thing/12", **environ}
        setup_testing_defaults(environ)
        environ.setdefault("QUERY_STRING", "")
        if envelope:
            environ["HTTP_X_FAULTLOOM"] = SIGNER.header(accept=accept)
        self.started, self.blocks, self.wrote = [], [], []

        def start_response(status, headers, exc_info=None):
            if exc_info and self.blocks:
                raise exc_info[1]
            self.started.append((status, headers))
            return self.wrote.append

        outer = Middleware(app)
        result = (validator(outer) if strict else outer)(environ, start_response)
        try:
            for block in result:
                if block:
                    self.blocks.append(block)
        finally:
            if hasattr(result, "close"):
                result.close()
        self.status, headers = self.started[-1]
        self.headers = {name.lower(): value for name, value in headers}
        self.body = b"".join(self.wrote + self.blocks)
        self.history = None
        if "x-faultloom-history" in self.headers:
            self.history = decode_history(decode_header(self.headers["x-faultloom-history"]))
        elif self.headers.get("x-faultloom-reply") == "tail":
            self.body, history = cut_tail(self.body)
            self.history = decode_history(history)


def listed(*blocks, status="200 OK", headers=()):
    def app(environ, start_response):
        start_response(status, [("Content-Type", "text/plain"), *headers])
        return list(blocks)

    return app


def test_a_list_has_the_history_in_a_header():
    served = Served(listed(b"one", b"two"))
    assert served.body == b"onetwo" and served.history.segment.name == "GET /thing/{id}"
    assert served.headers["cache-control"] == "no-store, no-transform" and served.headers["vary"] == "x-faultloom"


def test_cache_headers_of_the_application_are_replaced_and_vary_is_kept():
    served = Served(listed(b"x", headers=[("Cache-Control", "max-age=9"), ("Vary", "Accept"), ("Vary", "Cookie")]))
    assert served.headers["vary"] == "Accept, Cookie, x-faultloom" and served.headers["cache-control"] == "no-store, no-transform"


@pytest.mark.parametrize("size", [32_768, 32_769, 100_000])
def test_the_limit_of_held_bytes(size):
    served = Served(listed(*[b"x"] * size, headers=[("Content-Length", str(size))]))
    assert served.body == b"x" * size and served.history is not None
    assert ("x-faultloom-reply" in served.headers) == (size > 32_768)
    assert ("content-length" in served.headers) == (size <= 32_768)


def test_a_long_body_without_tail_is_a_marked_gap():
    served = Served(listed(b"x" * 40_000), accept=0)
    assert served.headers["x-faultloom-reply"] == "gap" and served.body == b"x" * 40_000 and served.history is None


@pytest.mark.parametrize("header", [("Content-Encoding", "gzip"), ("Digest", "x"), ("Content-MD5", "x"), ("Repr-Digest", "x")])
def test_replies_whose_bytes_must_not_change_have_no_tail(header):
    served = Served(listed(b"x" * 40_000, headers=[header]))
    assert served.headers["x-faultloom-reply"] == "gap" and served.body == b"x" * 40_000


def test_a_generator_runs_in_the_scope_and_starts_late():
    scopes = []

    def app(environ, start_response):
        def blocks():
            scopes.append(current_scope())
            start_response("200 OK", [("Content-Type", "text/plain")])
            yield b""
            scopes.append(current_scope())
            yield b"late"

        return blocks()

    served = Served(app)
    assert served.body == b"late" and served.history and None not in scopes and current_scope() is None


def test_written_bytes_are_held_and_then_sent():
    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        for _ in range(int(environ["HTTP_N"])):
            write(b"w" * 10_000)
        return [b"end"]

    assert Served(app, HTTP_N="2").body == b"w" * 20_000 + b"end"
    served = Served(app, HTTP_N="6")
    assert served.body == b"w" * 60_000 + b"end" and served.headers["x-faultloom-reply"] == "tail" and served.history


def test_an_exception_before_the_headers_reaches_the_server():
    def app(environ, start_response):
        raise KeyError("app")

    with pytest.raises(KeyError):
        Served(app)
    assert current_scope() is None


def test_an_error_page_replaces_held_headers():
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        try:
            raise ValueError("late")
        except ValueError:
            start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
        return [b"sorry"]

    served = Served(app)
    assert served.status == "500 Oops" and served.body == b"sorry" and served.history.segment.events[-1].status == 500
    assert len(served.started) == 1


def test_an_error_after_the_headers_is_raised_by_the_server():
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield b"x" * 40_000
        try:
            raise ValueError("late")
        except ValueError:
            start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())

    with pytest.raises(ValueError, match="late"):
        Served(app, strict=False)


def test_head_and_bodiless_statuses_carry_a_header():
    assert Served(listed(status="204 No Content", headers=()), strict=False).history
    served = Served(listed(), method="HEAD")
    assert served.body == b"" and served.history


def test_close_is_called_once_on_what_the_application_returned():
    class Body:
        closed_times = 0

        def __iter__(self):
            return iter([b"f" * 10_000] * 5)

        def close(self):
            Body.closed_times += 1

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return Body()

    assert Served(app).body == b"f" * 50_000 and Body.closed_times == 1


def test_a_server_that_stops_early_closes_the_applications_body():
    closed = []

    class Body:
        def __iter__(self):
            return iter([b"x" * 20_000] * 10)

        def close(self):
            closed.append(current_scope())

    def app(environ, start_response):
        start_response("200 OK", [])
        return Body()

    environ = {"HTTP_X_FAULTLOOM": SIGNER.header(accept=2)}
    setup_testing_defaults(environ)
    result = Middleware(app)(environ, lambda *a: None)
    next(iter(result))
    result.close()
    assert len(closed) == 1


def test_without_an_envelope_the_applications_own_iterable_is_returned():
    body = [b"x"]

    def app(environ, start_response):
        start_response("200 OK", [])
        return body

    environ = {}
    setup_testing_defaults(environ)
    assert Middleware(app)(environ, lambda *a: None) is body
    environ["HTTP_X_FAULTLOOM"] = "garbage"
    assert Middleware(app)(environ, lambda *a: None) is body


def test_an_event_stream_passes_block_by_block():
    served = Served(listed(b"data: 1\n\n", b"data: 2\n\n", headers=[("X-Accel-Buffering", "no")]))
    assert served.blocks == [b"data: 1\n\n", b"data: 2\n\n"] and served.headers["x-faultloom-reply"] == "gap"
