//! What every use case needs: the store's folder, the target, a sink for events, and cancellation.

use crate::event::Progress;
use crate::text::quoted;
use crate::{Cancel, Event, EventSink};
use model::{Failure, Family};
use runs::Store;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone)]
pub struct Context {
    /// Folder of the store, logs and keys.
    pub home: PathBuf,
    /// The target file that was named; see [`Context::target_file`].
    pub target: Option<PathBuf>,
    /// Trust settings of a target that something else runs.
    pub trust: Option<PathBuf>,
    /// Name of the command in suggestions such as "next: faultloom report".
    pub program: String,
    pub events: EventSink,
    /// Use cases that wait for a target, a network or a program end soon after [`Cancel::cancel`], with a failure of
    /// the family `Aborted`.
    pub cancel: Cancel,
}

impl Context {
    /// Without a target; events are dropped.
    pub fn new(home: impl Into<PathBuf>) -> Context {
        Context {
            home: home.into(),
            target: None,
            trust: None,
            program: "faultloom".to_owned(),
            events: Arc::new(|_| {}),
            cancel: Cancel::new(),
        }
    }

    pub async fn store(&self) -> Result<Store, Failure> {
        Store::open(&self.home).await
    }

    /// The target file that was named, else `target.yaml` in the working directory.
    pub fn target_file(&self) -> Option<PathBuf> {
        self.target.clone().or_else(|| {
            let here = PathBuf::from("target.yaml");
            here.exists().then_some(here)
        })
    }

    /// A command line for `verb` that uses the same target and store. What is specific to the verb can be appended, a
    /// part of it such as `replay` as well.
    pub fn command(&self, verb: &str) -> String {
        let mut words = vec![quoted(&self.program)];
        if let Some(target) = &self.target {
            words.push(format!("-t {}", quoted(&target.display().to_string())));
        }
        if let Some(trust) = &self.trust {
            words.push(format!("--trust {}", quoted(&trust.display().to_string())));
        }
        if self.home != Path::new(".faultloom") {
            words.push(format!("--home {}", quoted(&self.home.display().to_string())));
        }
        words.push(verb.to_owned());
        words.join(" ")
    }

    /// Runs `work`, or drops it when the use case is canceled. `what` is for the message: `the check`.
    pub async fn unless_canceled<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            () = self.cancel.canceled() => Err(Failure::new(Family::Aborted, format!("{what} was stopped"))),
        }
    }

    pub fn emit(&self, event: Event) {
        (self.events)(event);
    }

    pub fn progress(&self, progress: Progress) {
        self.emit(Event::Progress(progress));
    }

    pub fn step(&self, message: impl Into<String>) {
        self.progress(Progress::Step { message: message.into() });
    }

    pub fn warn(&self, message: impl Into<String>) {
        self.emit(Event::Warning { message: message.into() });
    }
}
