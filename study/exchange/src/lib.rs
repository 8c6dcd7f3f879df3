//! Traces in the formats of other tools: OTLP, Jaeger, Zipkin and Perfetto out, OTLP in.
//!
//! Every export starts from the spans that `wire` makes of a history, so ids, names and attributes are the same
//! everywhere. The entry call is not exported, because its caller, the tool, is not part of the application. Times are
//! those of the services' clocks. Only Perfetto has one time axis, so there a scope outside its call is moved inside.

mod annotations;
mod export;
mod import;
mod jaeger;
mod lanes;
mod names;
mod otlp_spans;
mod otlp_stream;
mod perfetto;
mod tree;
mod zipkin;

pub use export::{Export, Format};
pub use import::SpanFile;
pub use otlp_stream::SPANS_MAX;
