/**
 * OpenTelemetry as its manual sets it up, for `node --require ./otel.js`: batches with their defaults, W3C headers, OTLP/HTTP.
 * OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_SERVICE_NAME are its own variables.
 */

'use strict';

const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { GrpcInstrumentation } = require('@opentelemetry/instrumentation-grpc');
const { NodeSDK } = require('@opentelemetry/sdk-node');
const { BatchSpanProcessor } = require('@opentelemetry/sdk-trace');

if (!process.env.OTEL_EXPORTER_OTLP_ENDPOINT) {
  throw new Error('OTEL_EXPORTER_OTLP_ENDPOINT is not set');
}

// the others are not what is compared
process.env.OTEL_METRICS_EXPORTER = 'none';
process.env.OTEL_LOGS_EXPORTER = 'none';

const processor = new BatchSpanProcessor({ exporter: new OTLPTraceExporter() });
const sdk = new NodeSDK({ spanProcessors: [processor], instrumentations: [new GrpcInstrumentation()] });
sdk.start();
globalThis.flushSpans = () => processor.forceFlush();
