"""A service on ``http.server`` alone. It does not import Faultloom.

``handler_app.py [1.0 | 1.1 [BUFFER]]``: the version of HTTP, by default that of ``BaseHTTPRequestHandler``; the size of
the buffer of ``wfile``, by default none.
"""

import http.client
import http.server
import io
import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlsplit

from lifetime import announce

counts = {"echo": 0}
turn = threading.Event()


def send_many(count):
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", 1, timeout=1)
        try:
            connection.request("GET", "/item/1")
        except OSError:
            pass


class Handler(http.server.BaseHTTPRequestHandler):
    if len(sys.argv) > 1:
        protocol_version = f"HTTP/{sys.argv[1]}"
    if len(sys.argv) > 2:
        wbufsize = int(sys.argv[2])

    def setup(self):
        super().setup()
        self.output = self.wfile

    def do_GET(self):
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        name = url.path.split("/")[1]
        method = getattr(self, "answer_" + name, None)
        if method is None:
            return self.send_error(404)
        method()

    do_POST = do_HEAD = do_GET

    def reply(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_echo(self):
        counts["echo"] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply(body or b"hello", Content_Type="text/plain", Cache_Control="max-age=60")

    def answer_count(self):
        self.reply(str(counts["echo"]).encode())

    def answer_cart(self):
        self.reply(b"cart")

    def answer_big(self):
        self.reply(b"abcdefgh" * (int(self.query["n"]) // 8), Content_Type="text/plain")

    def answer_status(self):
        self.reply(b"", int(urlsplit(self.path).path.split("/")[2]))

    def answer_fan(self):
        send_many(int(self.query["n"]))
        self.reply(b"line\n" * int(self.query.get("lines", 1)), int(self.query.get("status", 200)))

    def answer_stream(self):
        """Without a length: until the connection is closed, or in chunks."""
        is_chunked = self.protocol_version == "HTTP/1.1" and "close" not in self.query
        self.send_response(200)
        self.send_header("Content-Type", self.query.get("type", "text/plain"))
        self.send_header(*(("Transfer-Encoding", "chunked") if is_chunked else ("Connection", "close")))
        self.end_headers()
        for number in range(int(self.query["n"])):
            if number == 1:
                send_many(int(self.query.get("fan", 0)))
            part = b"line %d of a stream\n" % number
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
        if is_chunked:
            self.wfile.write(b"0\r\nX-Lines: %d\r\n\r\n" % number)

    def answer_turns(self):
        """Waits until its caller has read the first part and has then called ``/turn``."""
        turn.clear()
        parts, framing = [b"first\n", b"turned"], ("Content-Length", "12")
        if "chunks" in self.query:
            parts, framing = [b"6\r\nfirst\n\r\n", b"6\r\nturned\r\n0\r\n\r\n"], ("Transfer-Encoding", "chunked")
        elif "close" in self.query:
            framing = ("Connection", "close")
        self.send_response(200)
        self.send_header(*framing)
        self.end_headers()
        self.wfile.write(parts[0])
        self.wfile.flush()
        if turn.wait(5):
            self.wfile.write(parts[1])

    def answer_flushed(self):
        self.reply(b"flushed")
        self.wfile.flush()

    def answer_turn(self):
        turn.set()
        self.reply(b"")

    def answer_file(self):
        """A declared length, and a body in several parts."""
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        shutil.copyfileobj(io.BytesIO(b"0123456789" * 10_000), self.wfile, 10_000)

    def answer_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: first\n\n")
        if "wait" in self.query:
            time.sleep(2)
        self.wfile.write(b"data: second\n\n")

    def answer_raw(self):
        """Without ``send_response``."""
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-")
        self.wfile.write(b"Length: 3\r\nConnection: close\r\n\r\nra")
        self.wfile.write(bytearray(b"w"))

    def answer_socket(self):
        """Past ``wfile``, on the socket itself."""
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.connection.sendall(b"past ")
        self.wfile.write(b"x")

    def answer_output(self):
        """By another reference to ``wfile``, and by a text file on it."""
        self.send_response(200)
        self.send_header("Content-Length", "11")
        self.end_headers()
        self.output.write(b"first ")
        text = io.TextIOWrapper(self.wfile, encoding="utf-8", write_through=True)
        text.write("text\n")
        text.detach()

    def answer_fileno(self):
        """On the file descriptor."""
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        os.write(self.wfile.fileno(), b"first ")
        self.wfile.write(b"then")

    def answer_chunks(self):
        """Chunks that are none."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\nnonsense\r\n")
        self.close_connection = True

    def answer_interim(self):
        self.send_response_only(103)
        self.send_header("Link", "</style.css>; rel=preload")
        self.end_headers()
        self.reply(b"final")

    def answer_short(self):
        """A body that is shorter than its declared length."""
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"x" * int(self.query["n"]))
        self.close_connection = True

    def answer_broken(self):
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"x" * int(self.query["n"]))
        raise RuntimeError("in the middle")

    def answer_boom(self):
        raise RuntimeError("boom")

    def answer_chain(self):
        try:
            with urllib.request.urlopen(self.query["url"], timeout=5) as reply:
                text = reply.read()
        except urllib.error.URLError as error:
            text = type(error.reason).__name__.encode()
        self.reply(b"via:" + text)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
announce(server.server_port)
server.serve_forever()
