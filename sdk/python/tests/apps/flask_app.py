"""A Flask service that does not import Faultloom."""

import http.client
import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import flask
import requests
from lifetime import announce
from werkzeug.serving import make_server

app = flask.Flask("shop")
counts = {"echo": 0}
pool = ThreadPoolExecutor(2)


@app.route("/echo", methods=["GET", "POST", "PUT"])
def echo():
    counts["echo"] += 1
    return flask.Response(flask.request.get_data() or b"hello", mimetype="text/plain", headers={"ETag": '"own"', "Cache-Control": "max-age=60"})


@app.get("/count")
def count():
    return str(counts["echo"])


@app.get("/cart/<int:id>/<path:rest>")
def cart(id, rest):
    return {"id": id, "rest": rest}


@app.get("/big")
def big():
    return flask.Response(b"abcdefgh" * (int(flask.request.args["n"]) // 8), mimetype="text/plain")


@app.get("/status/<int:code>")
def status(code):
    return flask.Response(b"" if code in (204, 304) else b"status", status=code)


def send_many(count):
    for _ in range(count):
        connection = http.client.HTTPConnection("nowhere", 1, timeout=1)
        try:
            connection.request("GET", "/item/1")
        except OSError:
            pass


@app.get("/fan")
def fan():
    send_many(int(flask.request.args["n"]))
    return flask.Response(b"line\n" * int(flask.request.args.get("lines", 1)), status=int(flask.request.args.get("status", 200)))


@app.get("/stream")
def stream():
    n = int(flask.request.args["n"])

    def lines():
        for i in range(n):
            if i == 1:
                send_many(int(flask.request.args.get("fan", 0)))
            yield f"line {i} of a stream\n"

    return flask.Response(flask.stream_with_context(lines()), mimetype=flask.request.args.get("type", "text/plain"))


@app.get("/events")
def events():
    def lines():
        yield "data: first\n\n"
        time.sleep(2)
        yield "data: second\n\n"

    return flask.Response(lines(), mimetype="text/event-stream")


@app.get("/broken")
def broken():
    def parts():
        yield "x" * 40_000
        raise RuntimeError("in the middle")

    return flask.Response(parts(), mimetype="text/plain")


@app.get("/boom")
def boom():
    raise RuntimeError("boom")


@app.get("/file")
def file():
    send_many(int(flask.request.args.get("fan", 0)))
    return flask.send_file(io.BytesIO(b"0123456789" * 1000), mimetype="application/octet-stream", conditional=True)


@app.get("/chain")
def chain():
    url, how = flask.request.args["url"], flask.request.args.get("how", "here")
    out = []

    def call():
        try:
            out.append(requests.get(url, timeout=5).text)
        except requests.RequestException as error:
            out.append(type(error).__name__)

    if how == "thread":
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    elif how == "pool":
        pool.submit(call).result()
    else:
        call()
    return "via:" + out[0]



server = make_server("127.0.0.1", 0, app, threaded=True)
announce(server.server_port)
server.serve_forever()
