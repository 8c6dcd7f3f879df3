"""A gRPC service with raw-bytes methods; knows nothing of Faultloom. ``grpc_app.py [aio]``."""

import asyncio
import sys
import time
from concurrent import futures

import grpc
from google.protobuf.wrappers_pb2 import StringValue
from lifetime import announce

counts = {"Echo": 0}


def chained(target, request):
    with grpc.insecure_channel(target) as channel:
        return channel.unary_unary("/t.T/Echo")(request, timeout=5)


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
    if method == "Fan":
        return fan(int(request))
    if method == "Slow":
        time.sleep(float(request))
        return b"slow"
    if method == "Count":
        return str(counts["Echo"]).encode()
    raise AssertionError(method)


def code(number):
    return next(c for c in grpc.StatusCode if c.value[0] == number)


def sync_handler(method):
    def handle(request, context):
        if method == "Fail":
            context.set_trailing_metadata((("own", "trailer"),))
            context.abort(code(int(request)), "asked for")
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
            await context.abort(code(int(request)), "asked for")
        if method == "FanFail":
            fan(int(request))
            await context.abort(grpc.StatusCode.NOT_FOUND, "after many")
        if method == "SetCode":
            context.set_code(code(int(request)))
            context.set_details("set")
            return b""
        if method == "Chain":
            async with grpc.aio.insecure_channel(request.decode()) as channel:
                first, second = await asyncio.gather(*(channel.unary_unary("/t.T/Echo")(b"chained", timeout=5) for _ in range(2)))
                return b"via:" + first
        return plain(method, request)

    return handle


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, make):
        self.make = make

    def service(self, details):
        service, method = details.method.rsplit("/", 1)
        if service != "/t.T":
            return None
        if method == "Proto":
            greet = lambda m, _: StringValue(value="hello " + m.value)  # noqa: E731
            return grpc.unary_unary_rpc_method_handler(greet, StringValue.FromString, StringValue.SerializeToString)
        if method == "PlainFail":

            def fail(request, context):
                context.set_trailing_metadata((("own", "trailer"),))
                context.abort(grpc.StatusCode.NOT_FOUND, "asked for")

            return grpc.unary_unary_rpc_method_handler(fail)
        if method == "PlainCode":

            def set_code(request, context):
                context.set_code(grpc.StatusCode.ALREADY_EXISTS)
                return b""

            return grpc.unary_unary_rpc_method_handler(set_code)
        if method == "BadReply":
            return grpc.unary_unary_rpc_method_handler(lambda m, _: 17, None, lambda m: m.nonsense)
        if method == "Stream":
            if self.make is async_handler:

                async def stream(request, context):
                    for i in range(int(request)):
                        yield b"%d" % i

            else:

                def stream(request, context):
                    for i in range(int(request)):
                        yield b"%d" % i

            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(self.make(method))


def main():
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((Handlers(sync_handler),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    announce(port)
    server.wait_for_termination(300)


async def main_async():
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((Handlers(async_handler),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(port)
    await server.wait_for_termination(300)


if sys.argv[1:] == ["aio"]:
    asyncio.run(main_async())
else:
    main()
