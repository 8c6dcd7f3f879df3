//! What every command needs: the use cases' context, and how output is written.

use crate::args::Common;
use crate::render::events::EventPrinter;
use app::Cancel;
use std::ops::Deref;
use std::sync::Arc;

pub struct Context {
    pub common: Common,
    pub app: app::Context,
    printer: Arc<EventPrinter>,
}

impl Deref for Context {
    type Target = app::Context;

    fn deref(&self) -> &app::Context {
        &self.app
    }
}

impl Context {
    pub fn new(common: Common) -> Context {
        let printer = Arc::new(EventPrinter::new(common.quiet || common.json));
        let app = app::Context {
            home: common.home.clone(),
            target: common.target.clone(),
            trust: common.trust.clone(),
            program: own_name(),
            events: Arc::new({
                let printer = printer.clone();
                move |event| printer.print(&event)
            }),
            cancel: Cancel::new(),
        };
        Context { common, app, printer }
    }

    /// A line on standard error, unless only results are wanted.
    pub fn note(&self, line: impl AsRef<str>) {
        if !self.common.quiet && !self.common.json {
            eprintln!("{}", line.as_ref());
        }
    }

    /// Removes the progress line, if one is shown.
    pub fn clear_progress(&self) {
        self.printer.clear();
    }
}

/// The command as it was typed, if that was a relative path; else `faultloom`.
fn own_name() -> String {
    std::env::args()
        .next()
        .filter(|name| name.contains('/') && !name.starts_with('/'))
        .unwrap_or_else(|| "faultloom".to_owned())
}
