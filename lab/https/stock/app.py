"""How many of each product are in stock, over TLS."""

import os

from flask import Flask, jsonify

app = Flask("stock")


@app.get("/stock/<product>")
def stock(product: str):
    return jsonify(id=product, count=7)


@app.get("/healthz")
def healthz():
    return ""


if __name__ == "__main__":
    certificate = (os.environ["TLS_CERT"], os.environ["TLS_KEY"])
    app.run(host="127.0.0.1", port=int(os.environ["PORT"]), ssl_context=certificate)
