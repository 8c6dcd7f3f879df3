/**
 * OpenTelemetry in its documented setup, for `node --require ./otel.js`: batches with default settings, W3C headers,
 * OTLP/HTTP. It reads OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_SERVICE_NAME.
 */

'use strict';

const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { GrpcInstrumentation } = require('@opentelemetry/instrumentation-grpc');
const { NodeSDK } = require('@opentelemetry/sdk-node');
const { BatchSpanProcessor } = require('@opentelemetry/sdk-trace');

if (!process.env.OTEL_EXPORTER_OTLP_ENDPOINT) {
  throw new Error('OTEL_EXPORTER_OTLP_ENDPOINT is not set');
}

// only traces are compared
process.env.OTEL_METRICS_EXPORTER = 'none';
process.env.OTEL_LOGS_EXPORTER = 'none';

const processor = new BatchSpanProcessor({ exporter: new OTLPTraceExporter() });
const sdk = new NodeSDK({ spanProcessors: [processor], instrumentations: [new GrpcInstrumentation()] });
sdk.start();
globalThis.flushSpans = () => processor.forceFlush();
