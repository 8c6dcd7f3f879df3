"""A FastAPI service with a mounted Starlette application. It does not import Faultloom.

``fastapi_app.py [hypercorn [KEY CERTIFICATE]]``: on hypercorn instead of uvicorn, with these files for ``https://``.
"""

import asyncio
import socket
import sys

import httpx
import requests
import uvicorn
from fastapi import APIRouter, BackgroundTasks, FastAPI
from fastapi.responses import FileResponse, PlainTextResponse, StreamingResponse
from lifetime import announce
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

app = FastAPI()
cart = APIRouter(prefix="/cart/{user}")


@app.get("/product/{id}")
async def product(id: str):
    return PlainTextResponse("product", headers={"Cache-Control": "max-age=60"})


@cart.get("/items/{number:int}")
def item(user: str, number: int):
    return {"user": user, "number": number}


nested = APIRouter(prefix="/nested/{a}")


@nested.get("/{b}/{rest:path}")
async def deep(a: str, b: str, rest: str):
    return rest


cart.include_router(nested)
app.include_router(cart, prefix="/api")


@app.get("/files/{name:path}")
def files(name: str):
    return name


@app.get("/chain")
async def chain(url: str):
    try:
        async with httpx.AsyncClient(timeout=5) as client:
            return PlainTextResponse("via:" + (await client.get(url)).text)
    except httpx.HTTPError as error:
        return PlainTextResponse("via:" + type(error).__name__)


@app.get("/threaded")
def threaded(url: str):
    return PlainTextResponse("via:" + requests.get(url, timeout=5).text)


@app.get("/fan")
async def fan(n: int, url: str):
    async with httpx.AsyncClient(timeout=5) as client:
        await asyncio.gather(*(client.get(url) for _ in range(n)))
    return PlainTextResponse("fan")


@app.get("/stream")
async def stream(n: int):
    async def lines():
        for i in range(n):
            yield f"line {i}\n"

    return StreamingResponse(lines(), media_type="text/plain")


@app.get("/events")
async def events():
    async def lines():
        yield "data: first\n\n"
        yield "data: second\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/file")
async def file():
    return FileResponse(__file__, media_type="text/plain")


@app.get("/later")
async def later(tasks: BackgroundTasks):
    tasks.add_task(asyncio.sleep, 0)
    return "later"


@app.get("/boom/{id}")
async def boom(id: str):
    raise RuntimeError("boom")


@app.get("/broken")
async def broken():
    async def parts():
        yield "x" * 40_000
        raise RuntimeError("in the middle")

    return StreamingResponse(parts(), media_type="text/plain")


async def order(request):
    return PlainTextResponse("order")


mounted = Starlette(routes=[Mount("/shop", routes=[Route("/orders/{id:int}", order)])])
app.mount("/v1/{tenant}", mounted)
app.mount("/static", StaticFiles(directory="."))

listener = socket.create_server(("127.0.0.1", 0))
announce(listener.getsockname()[1])
if sys.argv[1:2] == ["hypercorn"]:
    import hypercorn.asyncio

    config = hypercorn.Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.loglevel = "CRITICAL"
    if len(sys.argv) > 2:
        config.keyfile, config.certfile = sys.argv[2:]
    asyncio.run(hypercorn.asyncio.serve(app, config))
else:
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    server.run(sockets=[listener])
