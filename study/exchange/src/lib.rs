//! Traces in the formats of other tools: OTLP, Jaeger, Zipkin and Perfetto out, OTLP in.
//!
//! Every export starts from the spans that `wire` makes of a history, so ids, names and attributes are the same everywhere. The
//! starter's own call is no span: it is not part of the application. Times stay those of the services' clocks; only Perfetto,
//! which draws everything on one axis, gets a scope moved when it would lie outside its call.

mod export;
mod import;
mod jaeger;
mod lanes;
mod otlp_spans;
mod perfetto;
mod tree;
mod zipkin;

pub use export::{Format, export};
pub use import::{FILE_BYTES_MAX, Imported, import};
