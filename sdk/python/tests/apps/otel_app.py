"""Another application of this folder, instrumented by OpenTelemetry alone: ``otel_app.py flask_app``.

Exports nothing.
"""

import os
import runpy
import sys

from opentelemetry import trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.instrumentation.grpc import (
    GrpcAioInstrumentorClient,
    GrpcAioInstrumentorServer,
    GrpcInstrumentorClient,
    GrpcInstrumentorServer,
)
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
for instrumentor in (
    FlaskInstrumentor, RequestsInstrumentor, GrpcInstrumentorClient, GrpcInstrumentorServer,
    GrpcAioInstrumentorClient, GrpcAioInstrumentorServer,
):  # fmt: skip
    instrumentor().instrument()

app = sys.argv.pop(1)
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{app}.py"), run_name="__main__")
