//! `faultloom export`: a run's requests for other tools.

use crate::args::{Export, ExportFormat as Format};
use crate::context::Context;
use app::history::{self, ExportFormat, ExportSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::json;

pub async fn export(context: &Context, args: &Export) -> Result<Exit, Failure> {
    let format = match args.format {
        Format::Otlp => ExportFormat::Otlp,
        Format::Jaeger => ExportFormat::Jaeger,
        Format::Zipkin => ExportFormat::Zipkin,
        Format::Perfetto => ExportFormat::Perfetto,
    };
    let spec =
        ExportSpec { version: Version, run: args.run.clone(), format, bug: args.bug, unredacted: args.unredacted };
    let export = history::export(context, &spec).await?;
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
