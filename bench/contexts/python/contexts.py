"""Makes the calls of a plan, with their context or without it. See ../README.md."""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import requests
from flask import Flask, jsonify, request

WORKERS = 32
QUEUE_INTERVAL_S = 0.003
#: A cached worker ends after this many jobs, or when it was idle for this long.
CACHED_JOBS = 6
CACHED_IDLE_S = 0.05
AFTER_DELAY_S = 0.015

Job = Callable[[], None]

app = Flask("contexts")
executor = ThreadPoolExecutor(WORKERS)
pool: queue.Queue[Job] = queue.Queue()
batch: queue.Queue[Job] = queue.Queue()


class Cached:
    """Workers that are started when a job finds none idle."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle = 0
        self.jobs: queue.Queue[Job] = queue.Queue()

    def add(self, job: Job) -> None:
        with self.lock:
            if self.idle > 0:
                self.idle -= 1
                self.jobs.put(job)
                return
        threading.Thread(target=self.work, args=(job,), daemon=True).start()

    def work(self, job: Job) -> None:
        job()
        for _ in range(CACHED_JOBS - 1):
            with self.lock:
                self.idle += 1
            try:
                next_job = self.jobs.get(timeout=CACHED_IDLE_S)
            except queue.Empty:
                with self.lock:
                    if self.idle > 0:
                        self.idle -= 1
                        return
                next_job = self.jobs.get()  # it was promised to this worker meanwhile
            next_job()


cached = Cached()


def work_in_pool() -> None:
    while True:
        pool.get()()


def empty_batch() -> None:
    while True:
        job = batch.get()
        time.sleep(QUEUE_INTERVAL_S)
        threading.Thread(target=job, daemon=True).start()


for _ in range(WORKERS):
    threading.Thread(target=work_in_pool, daemon=True).start()
threading.Thread(target=empty_batch, daemon=True).start()


def begin(true_request: str, step: dict) -> threading.Event:
    """Makes the call. The event is set when it has ended."""
    ended = threading.Event()

    def call() -> None:
        try:
            send(true_request, step)
        finally:
            ended.set()

    def call_later() -> None:
        time.sleep(AFTER_DELAY_S)
        call()

    mode = step["mode"]
    if mode == "context":
        call()
    elif mode == "todo":
        contextvars.Context().run(call)
    elif mode == "thread":
        threading.Thread(target=call, daemon=True).start()
    elif mode == "executor":
        executor.submit(call)
    elif mode == "pool":
        pool.put(call)
    elif mode == "cached":
        cached.add(call)
    elif mode == "queue":
        batch.put(call)
    elif mode == "timer":
        threading.Timer(0.001, call).start()
    elif mode == "after":
        threading.Thread(target=call_later, daemon=True).start()
    else:
        raise ValueError(f"unknown mode '{mode}'")
    return ended


def send(true_request: str, step: dict) -> None:
    body = {"request": true_request, "steps": step["steps"]}
    try:
        requests.post(f"http://{step['peer']}/run/{step['call']}", json=body, timeout=30).raise_for_status()
    except requests.exceptions.RequestException as error:
        print(f"failed {step['call']} {error}", flush=True)


@app.post("/run/<call>")
def run(call: str):
    work = request.get_json()
    print(f"call {call} {work['request']}\n", end="", flush=True)
    pending = []
    for step in work["steps"]:
        time.sleep(step["pause_ms"] / 1000)
        ended = begin(work["request"], step)
        if step["mode"] == "after":
            continue
        if step["wait"]:
            ended.wait()
        else:
            pending.append(ended)
    for ended in pending:
        ended.wait()
    return jsonify({})


@app.get("/healthz")
def healthy():
    return ""


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ["PORT"]), threaded=True)
