// Required by an application: OpenTelemetry's own instrumentation, without the SDK.
'use strict';

const { registerInstrumentations } = require('@opentelemetry/instrumentation');
const { GrpcInstrumentation } = require('@opentelemetry/instrumentation-grpc');
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');
const { UndiciInstrumentation } = require('@opentelemetry/instrumentation-undici');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

new NodeTracerProvider().register();
registerInstrumentations({
  instrumentations: [new HttpInstrumentation(), new GrpcInstrumentation(), new UndiciInstrumentation()],
});
