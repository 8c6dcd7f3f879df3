//! `faultloom export`: a run's requests for other tools.

use crate::args::{Export, ExportFormat as Format};
use crate::context::Context;
use app::history::{self, ExportFormat, ExportSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::json;
use std::io::{self, BufWriter};

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
        export.write(&mut BufWriter::new(io::stdout().lock()))?;
        return Ok(Exit::Pass);
    };
    export.write_to(path)?;
    if context.common.json {
        println!("{}", json!({"run": export.run, "export": path, "traces": export.traces}));
    } else {
        println!("{}", path.display());
    }
    Ok(Exit::Pass)
}
