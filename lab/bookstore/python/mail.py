"""Accepts messages to customers. See ../README.md."""

from __future__ import annotations

import os

from flask import Flask, jsonify, request

app = Flask("mail")


@app.post("/messages")
def send():
    message = request.get_json()
    app.logger.info("to %s: %s", message["to"], message["text"])
    return jsonify(accepted=True)


@app.get("/healthz")
def healthy():
    return ""


if __name__ == "__main__":
    app.run(host=os.environ.get("BIND", "127.0.0.1"), port=int(os.environ["PORT"]), threaded=True)
