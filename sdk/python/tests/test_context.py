"""The current scope in threads, pools and tasks. Nothing is sent without one."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import requests
from conftest import SIGNER, ends

import faultloom
from faultloom.scope.current import current_scope


def test_threads_pools_and_tasks_inherit_the_scope():
    with faultloom.starting(SIGNER) as started:
        scopes = []
        thread = threading.Thread(target=lambda: scopes.append(current_scope()))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            scopes.append(pool.submit(current_scope).result())
            scopes.extend(pool.map(lambda _: current_scope(), range(2)))

        async def tasks():
            return await asyncio.gather(*(asyncio.to_thread(current_scope) if hasattr(asyncio, "to_thread") else nothing() for _ in range(2)))

        async def nothing():
            return current_scope()

        scopes.extend(asyncio.run(tasks()))
        scopes.append(asyncio.run(nothing()))
    assert all(scope is started.scope for scope in scopes) and len(scopes) == 7


def test_a_thread_that_overrides_run_inherits_the_scope():
    class Mine(threading.Thread):
        def run(self):
            self.scope = current_scope()

    with faultloom.starting(SIGNER) as started:
        thread = Mine()
        thread.start()
        thread.join()
    assert thread.scope is started.scope and "run" not in thread.__dict__


def test_a_pool_worker_does_not_keep_the_scope_of_the_job_that_started_it():
    scopes, pool = [], ThreadPoolExecutor(1)
    first, second = threading.Event(), threading.Event()
    with faultloom.starting(SIGNER):
        pool.submit(lambda: None).result()

        def outsider():
            first.wait(5)
            scopes.append(pool.submit(current_scope).result())
            second.set()

        from contextvars import Context

        thread = threading.Thread(target=lambda: Context().run(outsider))
        thread.start()
        first.set()
        assert second.wait(5)
    assert scopes == [None]


def test_work_that_outlives_its_request_has_no_scope():
    release, scopes = threading.Event(), []

    def late():
        release.wait(5)
        scopes.append(current_scope())

    with faultloom.starting(SIGNER):
        thread = threading.Thread(target=late)
        thread.start()
    release.set()
    thread.join()
    assert scopes == [None]


def test_without_a_scope_nothing_is_sent(peers):
    front = peers("flask_app", service="front")
    reply = requests.get(front.url + "/echo", timeout=5)
    assert reply.headers["cache-control"] == "max-age=60" and "vary" not in reply.headers
    assert "x-faultloom" not in reply.request.headers and current_scope() is None


def test_concurrent_requests_do_not_mix(peers):
    front = peers("flask_app", service="front")
    results = []

    def one(number):
        with faultloom.starting(SIGNER, service=f"starter-{number}") as started:
            for _ in range(number):
                requests.get(front.url + "/echo", timeout=10)
        results.append((number, started.history))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(1, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, history in results:
        assert ends(history.segment) == [("replied", 200, False, "front")] * number
    assert len(results) == 7
