"""The books and their prices. See ../README.md."""

from __future__ import annotations

import os
import threading

import requests
from flask import Flask, jsonify

BOOKS = {
    "1": {"id": "1", "title": "The Lighthouse", "cents": 1450},
    "2": {"id": "2", "title": "Bread and Stone", "cents": 990},
    "3": {"id": "3", "title": "A Short History of Maps", "cents": 2400},
}
STOCK_URL = os.environ["STOCK_URL"]

app = Flask("catalog")


@app.get("/books")
def books():
    return jsonify(list(BOOKS.values()))


@app.get("/books/<book>")
def detail(book: str):
    if book not in BOOKS:
        return jsonify(error="no such book"), 404
    found = dict(BOOKS[book])
    # what is available changes; it is requested while the rest of the reply is made
    request = threading.Thread(target=add_available, args=(found, book))
    request.start()
    found["title"] = found["title"].strip()
    request.join()
    return jsonify(found)


def add_available(found: dict, book: str) -> None:
    try:
        reply = requests.get(f"{STOCK_URL}/levels/{book}", timeout=2)
        reply.raise_for_status()
        found["available"] = reply.json()["available"]
    except requests.exceptions.RequestException as error:
        app.logger.warning("no level: %s", error)


@app.get("/healthz")
def healthy():
    return ""


if __name__ == "__main__":
    app.run(host=os.environ.get("BIND", "127.0.0.1"), port=int(os.environ["PORT"]), threaded=True)
