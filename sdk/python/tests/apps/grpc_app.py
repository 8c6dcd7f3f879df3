"""A gRPC service with raw-bytes methods that does not import Faultloom.

``grpc_app.py [aio | named] [late] [steps] [limit=BYTES] [calls=ADDRESS]``

``named``: its methods are registered by name, as generated code does; otherwise a generic handler looks up each call's.
``late``: it registers ``/t.L`` after it has started to serve. ``steps``: it counts the Python functions that its
threads call.
``limit``: the largest message that it accepts. ``calls``: an interceptor calls that address before a handler is looked
up.
"""

import asyncio
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf.wrappers_pb2 import StringValue
from lifetime import announce

settings = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
counts = {"Echo": 0}


def chained(target, request):
    with grpc.insecure_channel(target) as channel:
        return channel.unary_unary("/t.T/Echo")(request, timeout=5)


def relayed(request):
    """For the addresses "a b c": the next one, and the method and the message to send to it."""
    first, *rest = request.split()
    return first.decode(), "/t.T/Relay" if rest else "/t.T/Echo", b" ".join(rest) or b"relayed"


def relay(request):
    target, method, message = relayed(request)
    with grpc.insecure_channel(target) as channel:
        return b"via:" + channel.unary_unary(method)(message, timeout=5)


def fan(count):
    with grpc.insecure_channel("nowhere:1") as channel:
        call = channel.unary_unary("/t.T/Nothing")
        for _ in range(count):
            try:
                call(b"", timeout=1)
            except grpc.RpcError:
                pass
    return b"done"


def plain(method, request):
    if method == "Echo":
        counts["Echo"] += 1
        return request
    if method == "Big":
        return b"x" * int(request)
    if method == "Boom":
        raise ValueError("boom")
    if method == "Chain":
        return b"via:" + chained(request.decode(), b"chained")
    if method == "Relay":
        return relay(request)
    if method == "Fan":
        return fan(int(request))
    if method == "Slow":
        time.sleep(float(request))
        return b"slow"
    if method == "Count":
        return str(counts["Echo"]).encode()
    if method == "Steps":
        return str(counts["steps"]).encode()
    if method == "Closed":
        return str(counts.get("closed", 0)).encode()
    raise AssertionError(method)


def code(number):
    return next(c for c in grpc.StatusCode if c.value[0] == number)


def sync_handler(method):
    def handle(request, context):
        if method == "Fail":
            context.set_trailing_metadata((("own", "trailer"),))
            context.abort(code(int(request)), "requested")
        if method == "FanFail":
            fan(int(request))
            context.abort(grpc.StatusCode.NOT_FOUND, "after many")
        if method == "SetCode":
            context.set_code(code(int(request)))
            context.set_details("set")
            return b""
        return plain(method, request)

    return handle


def async_handler(method):
    async def handle(request, context):
        if method == "Fail":
            context.set_trailing_metadata((("own", "trailer"),))
            await context.abort(code(int(request)), "requested")
        if method == "FanFail":
            fan(int(request))
            await context.abort(grpc.StatusCode.NOT_FOUND, "after many")
        if method == "SetCode":
            context.set_code(code(int(request)))
            context.set_details("set")
            return b""
        if method == "Relay":
            target, method_, message = relayed(request)
            async with grpc.aio.insecure_channel(target) as channel:
                return b"via:" + await channel.unary_unary(method_)(message, timeout=5)
        if method == "Chain":
            async with grpc.aio.insecure_channel(request.decode()) as channel:
                first, second = await asyncio.gather(*(channel.unary_unary("/t.T/Echo")(b"chained", timeout=5) for _ in range(2)))
                return b"via:" + first
        return plain(method, request)

    return handle


# -- streams. A request "n target" gets n replies, each followed by a nested call to the target


def numbers(request):
    count, *target = request.decode().split()
    return int(count), target


def stream(request, context):
    count, target = numbers(request)
    for i in range(count):
        yield b"%d" % i
        for address in target:
            chained(address, b"n%d" % i)


async def stream_async(request, context):
    count, target = numbers(request)
    for i in range(count):
        yield b"%d" % i
        for address in target:
            async with grpc.aio.insecure_channel(address) as channel:
                await channel.unary_unary("/t.T/Echo")(b"n%d" % i, timeout=5)


async def stream_written(request, context):
    async for message in stream_async(request, context):
        await context.write(message)


def stream_fail(request, context):
    yield from stream(request, context)
    context.set_trailing_metadata((("own", "trailer"),))
    context.abort(grpc.StatusCode.NOT_FOUND, "requested")


async def stream_fail_async(request, context):
    async for message in stream_async(request, context):
        yield message
    context.set_trailing_metadata((("own", "trailer"),))
    await context.abort(grpc.StatusCode.NOT_FOUND, "requested")


def stream_boom(request, context):
    yield b"0"
    raise ValueError("boom")


def stream_open(request, context):
    """Never ends by itself. Counts its ends, which ``Closed`` returns."""
    try:
        yield from stream(request, context)
        while context.is_active():
            time.sleep(0.02)
    finally:
        counts["closed"] = counts.get("closed", 0) + 1


async def stream_open_async(request, context):
    try:
        async for message in stream_async(request, context):
            yield message
        while True:
            await asyncio.sleep(0.02)
    finally:
        counts["closed"] = counts.get("closed", 0) + 1


def stream_fan(request, context):
    count, size = (int(word) for word in request.split())
    yield b"first"
    fan(count)
    yield b"x" * size
    fan(count)


def join(requests, context):
    parts = []
    for message in requests:
        count, target = message.partition(b" ")[0], message.decode().split()[1:]
        parts.append(count)
        for address in target:
            chained(address, b"j" + count)
    return b"+".join(parts)


async def join_async(requests, context):
    parts = []
    async for message in requests:
        count, target = message.partition(b" ")[0], message.decode().split()[1:]
        parts.append(count)
        for address in target:
            async with grpc.aio.insecure_channel(address) as channel:
                await channel.unary_unary("/t.T/Echo")(b"j" + count, timeout=5)
    return b"+".join(parts)


def join_fail(requests, context):
    join(requests, context)
    context.abort(grpc.StatusCode.OUT_OF_RANGE, "requested")


async def join_fail_async(requests, context):
    await join_async(requests, context)
    await context.abort(grpc.StatusCode.OUT_OF_RANGE, "requested")


def talk(requests, context):
    for message in requests:
        word, *target = message.decode().split()
        for address in target:
            chained(address, word.encode())
        yield b"re:" + word.encode()


async def talk_async(requests, context):
    async for message in requests:
        word, *target = message.decode().split()
        for address in target:
            async with grpc.aio.insecure_channel(address) as channel:
                await channel.unary_unary("/t.T/Echo")(word.encode(), timeout=5)
        yield b"re:" + word.encode()


US, SU, SS = grpc.unary_stream_rpc_method_handler, grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
#: kind, handler, handler of the asynchronous server (None: the same, which that server runs on a thread)
STREAMS = {
    "Stream": (US, stream, stream_async),
    "StreamWritten": (US, stream, stream_written),
    "StreamPlain": (US, stream, None),
    "StreamFail": (US, stream_fail, stream_fail_async),
    "StreamPlainFail": (US, stream_fail, None),
    "StreamBoom": (US, stream_boom, None),
    "StreamOpen": (US, stream_open, stream_open_async),
    "StreamFan": (US, stream_fan, None),
    "Join": (SU, join, join_async),
    "JoinPlain": (SU, join, None),
    "JoinFail": (SU, join_fail, join_fail_async),
    "Talk": (SS, talk, talk_async),
    "TalkPlain": (SS, talk, None),
}


NAMES = ("Echo", "Big", "Boom", "Chain", "Relay", "Fan", "Slow", "Count", "Steps", "Closed", "Fail", "FanFail", "SetCode")
NAMES += ("Proto", "Mirror", "PlainFail", "PlainCode", "BadReply", *STREAMS)


def handler_of(make, method):
    if method == "Proto":
        greet = lambda m, _: StringValue(value="hello " + m.value)  # noqa: E731
        return grpc.unary_unary_rpc_method_handler(greet, StringValue.FromString, StringValue.SerializeToString)
    if method == "Mirror":
        return grpc.unary_unary_rpc_method_handler(lambda m, _: m, StringValue.FromString, StringValue.SerializeToString)
    if method == "PlainFail":

        def fail(request, context):
            context.set_trailing_metadata((("own", "trailer"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "requested")

        return grpc.unary_unary_rpc_method_handler(fail)
    if method == "PlainCode":

        def set_code(request, context):
            context.set_code(grpc.StatusCode.ALREADY_EXISTS)
            return b""

        return grpc.unary_unary_rpc_method_handler(set_code)
    if method == "BadReply":
        return grpc.unary_unary_rpc_method_handler(lambda m, _: 17, None, lambda m: m.nonsense)
    if method in STREAMS:
        kind, sync_handler_, async_handler_ = STREAMS[method]
        return kind(sync_handler_ if make is sync_handler or async_handler_ is None else async_handler_)
    return grpc.unary_unary_rpc_method_handler(make(method))


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, make):
        self.make = make

    def service(self, details):
        service, method = details.method.rsplit("/", 1)
        return handler_of(self.make, method) if service == "/t.T" else None


class CallingInterceptor(grpc.ServerInterceptor):
    def intercept_service(self, continuation, details):
        chained(settings["calls"], b"before")
        return continuation(details)


class AsyncCallingInterceptor(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation, details):
        async with grpc.aio.insecure_channel(settings["calls"]) as channel:
            await channel.unary_unary("/t.T/Echo")(b"before", timeout=5)
        return await continuation(details)


OPTIONS = [("grpc.max_send_message_length", -1)]
if "limit" in settings:
    OPTIONS.append(("grpc.max_receive_message_length", int(settings["limit"])))


def count_steps(frame, event, argument):
    if event == "call":
        counts["steps"] = counts.get("steps", 0) + 1


def main():
    if "steps" in settings:
        threading.setprofile(count_steps)
    server = grpc.server(futures.ThreadPoolExecutor(8), interceptors=[CallingInterceptor()] if "calls" in settings else None, options=OPTIONS)
    if "named" in settings:
        named = {name: handler_of(sync_handler, name) for name in NAMES}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", named),))
        server.add_registered_method_handlers("t.T", named)
    else:
        server.add_generic_rpc_handlers((Handlers(sync_handler),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    if "late" in settings:
        late = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.L", late),))
    announce(port)
    server.wait_for_termination()


async def main_async():
    server = grpc.aio.server(interceptors=[AsyncCallingInterceptor()] if "calls" in settings else None, options=OPTIONS)
    server.add_generic_rpc_handlers((Handlers(async_handler),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(port)
    await server.wait_for_termination()


if "aio" in settings:
    asyncio.run(main_async())
else:
    main()
