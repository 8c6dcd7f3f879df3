"""Returns the number of free seats for a show."""

import os

import requests
from flask import Flask, jsonify

SEATS = {"great hall": 420, "studio": 60}
SOLD = {"1": 377, "2": 12}

app = Flask("seats")


@app.get("/seats/<show>")
def free(show):
    reply = requests.get(f"{os.environ['SHOWS_URL']}/shows/{show}", timeout=2)
    if reply.status_code != 200:
        return jsonify(error="no such show"), reply.status_code
    return jsonify(free=SEATS[reply.json()["hall"]] - SOLD[show])


@app.get("/healthz")
def healthy():
    return ""


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ["PORT"]))
