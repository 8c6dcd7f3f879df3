"""An aiohttp service that calls others with aiohttp's client. It does not import Faultloom.

``aiohttp_app.py [KEY CERTIFICATE | bare]``: serves ``https://`` with these files; a server without an application.
"""

import asyncio
import ssl
import sys
import tempfile

import aiohttp
from aiohttp import web
from lifetime import announce

counts = {"echo": 0}
routes = web.RouteTableDef()


@routes.route("*", "/echo")
async def echo(request):
    counts["echo"] += 1
    return web.Response(body=await request.read() or b"hello", content_type="text/plain", headers={"Cache-Control": "max-age=60"})


@routes.get("/count")
async def count(request):
    return web.Response(text=str(counts["echo"]))


@routes.get("/product/{id}")
@routes.get(r"/cart/{id:\d+}/{rest:.*}")
@routes.get("/files/{name:.+}")
async def text(request):
    return web.Response(text="ok")


@routes.get(r"/status/{code:\d+}")
async def status(request):
    return web.Response(status=int(request.match_info["code"]))


@routes.get("/big")
async def big(request):
    return web.Response(body=b"abcdefgh" * (int(request.query["n"]) // 8), content_type="text/plain")


@routes.get("/compressed")
async def compressed(request):
    reply = web.Response(text="text " * 20_000)
    reply.enable_compression()
    return reply


async def get(session, url, timeout=5):
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=timeout)) as reply:
            return await reply.text()
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        return type(error).__name__


async def send_many(number):
    async with aiohttp.ClientSession() as session:
        for _ in range(number):
            await get(session, "http://127.0.0.1:1/item/1")


@routes.get("/chain")
async def chain(request):
    async with aiohttp.ClientSession() as session:
        return web.Response(text="via:" + await get(session, request.query["url"]))


@routes.get("/fan")
async def fan(request):
    await send_many(int(request.query["n"]))
    return web.Response(body=b"line\n" * int(request.query.get("lines", 1)), status=int(request.query.get("status", 200)))


@routes.get("/stream")
async def stream(request):
    reply = web.StreamResponse(headers={"Content-Type": request.query.get("type", "text/plain")})
    if "length" in request.query:
        reply.content_length = int(request.query["length"])
    await reply.prepare(request)
    for number in range(int(request.query["n"])):
        if number == 1:
            await send_many(int(request.query.get("fan", 0)))
        await reply.write(b"line %d of a stream\n" % number)
    await reply.write_eof()
    return reply


@routes.get("/turns")
async def turns(request):
    """Waits until its caller has read the first part, or only the head, and has then called ``/turn``."""
    turn.clear()
    reply = web.StreamResponse(headers={"Content-Type": "text/plain"})
    if "length" in request.query:
        reply.content_length = 12
    await reply.prepare(request)
    if "head" not in request.query:
        await reply.write(b"first\n")
    try:
        await asyncio.wait_for(turn.wait(), 5)
        await reply.write(b"turned" if "head" not in request.query else b"first\nturned")
    except asyncio.TimeoutError:
        await reply.write(b"alone")
    return reply


@routes.get("/turn")
async def take_turn(request):
    turn.set()
    return web.Response()


@routes.get("/events")
async def events(request):
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await reply.prepare(request)
    await reply.write(b"data: first\n\n")
    if "wait" in request.query:
        await asyncio.sleep(2)
    await reply.write(b"data: second\n\n")
    return reply


@routes.get("/broken")
async def broken(request):
    reply = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await reply.prepare(request)
    await reply.write(b"x" * int(request.query.get("n", 40_000)))
    raise RuntimeError("in the middle")


@routes.get("/boom/{id}")
async def boom(request):
    raise RuntimeError("boom")


@routes.get("/missing/{id}")
async def missing(request):
    raise web.HTTPNotFound(text="missing")


@routes.get("/redirect")
async def redirect(request):
    raise web.HTTPFound(request.query["to"])


@routes.get("/file")
async def file(request):
    return web.FileResponse(written.name)


@routes.get("/socket")
async def socket(request):
    ws = web.WebSocketResponse()
    await ws.prepare(request)
    async for message in ws:
        await ws.send_str(message.data.upper())
    return ws


written = tempfile.NamedTemporaryFile(suffix=".txt")
written.write(b"0123456789" * 10_000)
written.flush()


async def main():
    global turn
    turn = asyncio.Event()
    app = web.Application()
    app.add_routes(routes)
    shop = web.Application()
    shop.router.add_get("/orders/{id}", text)
    app.add_subapp("/v1/shop", shop)
    app.router.add_static("/static", ".")
    runner = web.ServerRunner(web.Server(echo)) if sys.argv[1:] == ["bare"] else web.AppRunner(app, access_log=None)
    await runner.setup()
    context = None
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[1])
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    announce(runner.addresses[0][1])
    await asyncio.Event().wait()


asyncio.run(main())
