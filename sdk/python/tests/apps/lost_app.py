"""A Flask service whose calls lose their request. It does not import Faultloom.

``/HOW?client=CLIENT``: makes a call to ``http`` or ``grpc``, the addresses of two other services (``lost_app.py HTTP
GRPC``).
"""

import asyncio
import contextvars
import http.client
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import flask
import grpc
import httpx
import requests
from lifetime import announce
from werkzeug.serving import make_server

HTTP, GRPC = sys.argv[1:]
app = flask.Flask("lost")
channel = grpc.insecure_channel(GRPC)


def with_http_client():
    connection = http.client.HTTPConnection(HTTP, timeout=10)
    connection.request("GET", "/echo")
    connection.getresponse().read()
    connection.close()


async def with_httpx_async():
    async with httpx.AsyncClient() as client:
        await client.get(f"http://{HTTP}/echo", timeout=10)


async def with_aiohttp():
    import aiohttp  # which takes time, and most tests do not need it

    async with aiohttp.ClientSession() as session, session.get(f"http://{HTTP}/echo") as reply:
        await reply.read()


async def with_grpc_aio(kind):
    async with grpc.aio.insecure_channel(GRPC) as own:
        if kind == "unary":
            await own.unary_unary("/t.T/Echo")(b"x", timeout=10)
        else:
            [message async for message in own.unary_stream("/t.T/Stream")(b"2", timeout=10)]


CLIENTS = {
    "http.client": with_http_client,
    "requests": lambda: requests.get(f"http://{HTTP}/echo", timeout=10),
    "httpx": lambda: httpx.get(f"http://{HTTP}/echo", timeout=10),
    "httpx-async": lambda: asyncio.run(with_httpx_async()),
    "aiohttp": lambda: asyncio.run(with_aiohttp()),
    "grpc": lambda: channel.unary_unary("/t.T/Echo")(b"x", timeout=10),
    "grpc-with-call": lambda: channel.unary_unary("/t.T/Echo").with_call(b"x", timeout=10),
    "grpc-future": lambda: channel.unary_unary("/t.T/Echo").future(b"x", timeout=10).result(),
    "grpc-stream": lambda: list(channel.unary_stream("/t.T/Stream")(b"2", timeout=10)),
    "grpc-aio": lambda: asyncio.run(with_grpc_aio("unary")),
    "grpc-aio-stream": lambda: asyncio.run(with_grpc_aio("stream")),
}


class Workers:
    """A pool with threads of its own."""

    def __init__(self):
        self.jobs = queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            job, done = self.jobs.get()
            job()
            done.set()

    def run(self, job):
        done = threading.Event()
        self.jobs.put((job, done))
        done.wait(10)


early, early_pool, executor = Workers(), ThreadPool(1), ThreadPoolExecutor(1)
late = []
first_is_open, first_may_end, after, late_is_done = (threading.Event() for _ in range(4))


def joined(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


async def in_task(call):
    await asyncio.create_task(asyncio.to_thread(call))


@app.get("/<how>")
def handle(how):
    call = CLIENTS[flask.request.args.get("client", "requests")]
    if how == "healthy":
        call()
    elif how == "direct":
        contextvars.Context().run(call)
    elif how == "thread":
        joined(lambda: joined(call))
    elif how == "job":
        executor.submit(call).result()
    elif how == "job-of-thread":
        joined(lambda: executor.submit(call).result())
    elif how == "task":
        asyncio.run(in_task(call))
    elif how == "early":
        early.run(call)
    elif how == "early-pool":
        early_pool.apply(call)
    elif how == "first":  # starts a pool, and is open while others use it
        late.append(Workers())
        first_is_open.set()
        first_may_end.wait(10)
    elif how == "late":
        first_is_open.wait(10)
        late[0].run(call)
    elif how == "release":
        first_may_end.set()
    elif how == "after":  # calls while another request is open, when this one has been answered
        threading.Thread(target=lambda: (after.wait(10), call(), late_is_done.set())).start()
    elif how == "other":
        after.set()
        late_is_done.wait(10)
    elif how == "untraced":
        call()
        executor.submit(call).result()
    return "ok"


server = make_server("127.0.0.1", 0, app, threaded=True)
announce(server.server_port)
server.serve_forever()
