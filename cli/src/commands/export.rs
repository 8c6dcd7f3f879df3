//! `faultloom export`: a run's requests for other tools.

use crate::args::{Export, ExportFormat};
use crate::context::Context;
use app::history;
use exchange::Format;
use model::{Exit, Failure};
use serde_json::json;

pub async fn export(context: &Context, args: &Export) -> Result<Exit, Failure> {
    let format = match args.format {
        ExportFormat::Otlp => Format::Otlp,
        ExportFormat::Jaeger => Format::Jaeger,
        ExportFormat::Zipkin => Format::Zipkin,
        ExportFormat::Perfetto => Format::Perfetto,
    };
    let export = history::export(context, &args.run, args.bug, format).await?;
    let Some(path) = &args.output else {
        println!("{}", export.document);
        return Ok(Exit::Pass);
    };
    history::write_to(path, format!("{}\n", export.document).as_bytes())?;
    if context.common.json {
        println!("{}", json!({"run": export.run, "export": path, "traces": export.traces}));
    } else {
        println!("{}", path.display());
    }
    Ok(Exit::Pass)
}
