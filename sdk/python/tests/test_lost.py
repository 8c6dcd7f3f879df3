"""Calls that lost their request: inherited from the thread and marked, or counted by every open scope."""

from __future__ import annotations

import re
import threading
from contextvars import Context

import pytest
import requests
from conftest import SIGNER

import faultloom
from faultloom import Fault, Selector
from faultloom.scope.unscoped import OPEN_SCOPES, SENT_UNSCOPED, UNSCOPED_CALLS_MAX, count_unscoped
from faultloom.wire.history import CALL_FAILED, RECV_RESPONSE, SEND_REQUEST, UNSCOPED_CALLS

HTTP = ("http.client", "requests", "httpx", "httpx-async", "aiohttp")
GRPC = ("grpc", "grpc-with-call", "grpc-future", "grpc-stream", "grpc-aio", "grpc-aio-stream")
CLIENTS = pytest.mark.parametrize("client", [*HTTP, *GRPC])


@pytest.fixture
def service(own_peer, peers):
    """The service. Its callees have the names ``http`` and ``grpc``."""
    http, grpc = peers("flask_app", service="callee"), peers("grpc_app", service="callee")
    names = f"{http.address}=http,{grpc.address}=grpc"
    return own_peer("lost_app", http.address, grpc.address, service="lost", FAULTLOOM_PEERS=names)


def events_of(service, how, client="requests", plan=None):
    """The events of the service's segment."""
    with faultloom.starting(SIGNER, plan) as started:
        assert requests.get(f"{service.url}/{how}?client={client}", timeout=20).status_code in (200, 500)
    return next(e.child for e in started.history.segment.events if e.child).events


def calls_of(events):
    """("own" | "inherited", whether the callee had the envelope) of each call; (count, peer, site) of those counted."""
    traced = {e.call for e in events if e.kind in (RECV_RESPONSE, CALL_FAILED) and e.child}
    found = [("inherited" if e.inherited else "own", e.call in traced) for e in events if e.kind == SEND_REQUEST]
    return found + [(e.calls, e.peer, re.sub(r":\d+$", "", e.site)) for e in events if e.kind == UNSCOPED_CALLS]


def counted(client):
    return [(1, "http" if client in HTTP else "grpc", "lost_app.py")]


@CLIENTS
def test_calls_of_the_request_itself_are_neither_marked_nor_counted(service, client):
    for how in ("healthy", "job", "task"):
        assert calls_of(events_of(service, how, client)) == [("own", True)], how


@CLIENTS
def test_calls_of_started_threads_are_inherited(service, client):
    for how in ("thread", "job-of-thread"):
        assert calls_of(events_of(service, how, client)) == [("inherited", True)], how


@CLIENTS
def test_calls_in_another_context_or_an_earlier_pool_are_counted(service, client):
    for how in ("direct", "early", "early-pool"):
        assert calls_of(events_of(service, how, client)) == counted(client), how
    assert calls_of(events_of(service, "healthy", client)) == [("own", True)]


def test_faults_fire_at_inherited_calls(service):
    events = events_of(service, "thread", plan=[Fault("unavailable", Selector(caller="lost"))])
    assert [(e.inherited, e.fault) for e in events if e.kind == SEND_REQUEST] == [(True, 0)]


@CLIENTS
def test_a_pool_that_a_request_started_gives_it_the_calls_of_others(service, client):
    first = []
    thread = threading.Thread(target=lambda: first.append(events_of(service, "first", client)))
    thread.start()
    assert calls_of(events_of(service, "late", client)) == counted(client)  # it may belong to either
    requests.get(service.url + "/untraced?client=" + client, timeout=20)  # within a request without a scope: not counted
    requests.get(service.url + "/release", timeout=20)
    thread.join()
    assert calls_of(first[0]) == [("inherited", True)]
    assert calls_of(events_of(service, "late", client)) == counted(client)  # it has been answered


@CLIENTS
def test_a_call_after_the_answer_is_counted_for_others(service, client):
    assert calls_of(events_of(service, "after", client)) == []
    assert calls_of(events_of(service, "other", client)) == counted(client)


def test_the_last_unscoped_calls_are_stored():
    with faultloom.starting(SIGNER) as started:
        for number in range(UNSCOPED_CALLS_MAX + 10):
            count_unscoped(True, "b:80", "GET /early" if number < 10 else "GET /products/17")
    events = [(e.calls, e.name, e.peer) for e in started.history.segment.events if e.kind == UNSCOPED_CALLS]
    assert events == [(UNSCOPED_CALLS_MAX, "GET /products/{id}", "b:80"), (10, "other", "other")]


def test_other_scopes_count_inherited_calls():
    def inherit(started, name):
        assert started.scope.begin_inherited_call(True, "b", name, b"")

    def counted_by(started):
        found = started.history.segment.events
        return [(e.calls, e.name) for e in found if e.kind == UNSCOPED_CALLS]

    others = set(OPEN_SCOPES)  # that other tests have left open
    OPEN_SCOPES.clear()
    try:
        with faultloom.starting(SIGNER) as first:
            inherit(first, "GET /alone/17")
            with faultloom.starting(SIGNER) as second:
                inherit(first, "GET /both/17")
                inherit(first, "GET /both/18")
                inherit(second, "GET /own")
                with faultloom.starting(SIGNER) as third:
                    assert first.scope.begin_call(True, "b", "GET /context", b"")
        assert (counted_by(first), counted_by(second), counted_by(third)) == ([(1, "GET /own")], [(2, "GET /both/{id}")], [])

        with faultloom.starting(SIGNER) as first, faultloom.starting(SIGNER) as second:
            for _ in range(UNSCOPED_CALLS_MAX):
                inherit(first, "GET /early")
            inherit(second, "GET /late")
            for _ in range(10):
                inherit(first, "GET /late")
        assert counted_by(first) == [(1, "GET /late")]
        assert counted_by(second) == [(UNSCOPED_CALLS_MAX - 11, "GET /early"), (10, "GET /late"), (11, "other")]
    finally:
        OPEN_SCOPES.update(others)


def test_no_call_is_counted_while_no_scope_is_open(service):
    others = set(OPEN_SCOPES)  # that other tests have left open
    OPEN_SCOPES.clear()
    try:
        before = SENT_UNSCOPED.sent
        with faultloom.starting(SIGNER):
            assert OPEN_SCOPES
        requests.get(service.url + "/healthy", timeout=20)
        assert not OPEN_SCOPES and SENT_UNSCOPED.sent == before
        with faultloom.starting(SIGNER):
            Context().run(requests.get, service.url + "/healthy", timeout=20)
        assert SENT_UNSCOPED.sent == before + 1
    finally:
        OPEN_SCOPES.update(others)
