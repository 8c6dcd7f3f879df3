"""A relay of unary calls without Faultloom that reports the messages it received: ``wire_app.py TARGET``.

Metadata ``wire`` makes a call fail: ``drop`` replies without the field that the target would have appended, ``fail``
aborts.
"""

import json
import sys
from concurrent import futures

import grpc
from lifetime import announce

channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.max_receive_message_length", -1)])
received = []


def record(message, context):
    metadata = dict(context.invocation_metadata())
    received.append([message.hex(), "x-faultloom-bin" in metadata])
    return metadata


def report(request, context):
    messages = json.dumps(received)
    received.clear()
    return messages.encode()


def relayed(method):
    def relay(request, context):
        incoming = record(request, context)
        if incoming.get("wire") == "drop":
            return b"dropped"
        if incoming.get("wire") == "fail":
            context.abort(grpc.StatusCode.UNAVAILABLE, "requested")
        metadata = [(key, value) for key, value in incoming.items() if key in ("x-faultloom-bin", "own")]
        try:
            message, call = channel.unary_unary(method).with_call(request, metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            context.set_trailing_metadata(tuple(error.trailing_metadata()))
            context.abort(error.code(), error.details())
        context.set_trailing_metadata(tuple(call.trailing_metadata()))
        return message

    return relay


class Handlers(grpc.GenericRpcHandler):
    def service(self, details):
        name = details.method.rsplit("/", 1)[1]
        if name == "Received":
            return grpc.unary_unary_rpc_method_handler(report)
        if name == "Stream":
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([str(record(request, context)).encode()]))
        if name == "Join":
            return grpc.stream_unary_rpc_method_handler(lambda requests, context: str([record(request, context) for request in requests]).encode())
        return grpc.unary_unary_rpc_method_handler(relayed(details.method))


server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
server.add_generic_rpc_handlers((Handlers(),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
announce(port)
server.wait_for_termination()
