//! Error messages for the user: what failed, the likely reason, the next step.

use crate::Exit;

/// Families of failure. A failure of the target is data and never becomes a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The request was wrong: unknown key, bad fault text. Exit 2.
    Request,
    /// The environment lacks something: port in use, service not healthy, disk full. Exit 3.
    Environment,
    /// Stopped by a safeguard or by the user (Ctrl-C). Exit 4.
    Aborted,
    /// No verdict is possible: a fault matches no call, a history is missing. Exit 5.
    Unknown,
    /// A bug in Faultloom. Exit 3; the message asks for a report.
    Bug,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub family: Family,
    pub what: String,
    pub why: Option<String>,
    pub next: Option<String>,
    /// The field of a use case's spec that is wrong, with dots between nested names: `judge.errors`.
    pub field: Option<&'static str>,
}

impl Failure {
    pub fn new(family: Family, what: impl Into<String>) -> Failure {
        Failure { family, what: what.into(), why: None, next: None, field: None }
    }

    pub fn request(what: impl Into<String>) -> Failure {
        Failure::new(Family::Request, what)
    }

    pub fn environment(what: impl Into<String>) -> Failure {
        Failure::new(Family::Environment, what)
    }

    pub fn unknown(what: impl Into<String>) -> Failure {
        Failure::new(Family::Unknown, what)
    }

    pub fn why(mut self, why: impl Into<String>) -> Failure {
        self.why = Some(why.into());
        self
    }

    pub fn next(mut self, next: impl Into<String>) -> Failure {
        self.next = Some(next.into());
        self
    }

    pub fn field(mut self, field: &'static str) -> Failure {
        self.field = Some(field);
        self
    }

    pub fn exit(&self) -> Exit {
        match self.family {
            Family::Request => Exit::Usage,
            Family::Environment | Family::Bug => Exit::Environment,
            Family::Aborted => Exit::Aborted,
            Family::Unknown => Exit::Unknown,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.what)?;
        if let Some(why) = &self.why {
            for line in why.lines() {
                write!(f, "\n  {line}")?;
            }
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {next}")?;
        }
        if self.family == Family::Bug {
            write!(f, "\n  this is a bug in faultloom; please report it with the command you ran")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
