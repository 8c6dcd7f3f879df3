//! Progress events of the supervisor; each is displayed as one line.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The remaining processes of an `up` that was killed are being stopped first.
    CleaningUp {
        target: String,
    },
    Starting {
        service: String,
    },
    Healthy {
        service: String,
        after: Duration,
    },
    /// It is not healthy within its `start_timeout_s`, but working, so it gets more time.
    StillStarting {
        service: String,
        after: Duration,
        longest: Duration,
    },
    /// Nothing failed, but the user may have expected something else.
    Warning(String),
    Restarting {
        service: String,
    },
    Stopping {
        services: usize,
    },
    Stopped {
        after: Duration,
    },
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::CleaningUp { target } => write!(f, "stopping the remaining processes of {target}"),
            Event::Starting { service } => write!(f, "{service} starting"),
            Event::Healthy { service, after } => {
                write!(f, "{service} healthy after {:.1} s", after.as_secs_f64())
            }
            Event::StillStarting { service, after, longest } => write!(
                f,
                "{service} is not healthy after {:.0} s, but busy; waiting for up to {:.0} s, three times its start_timeout_s",
                after.as_secs_f64(),
                longest.as_secs_f64()
            ),
            Event::Warning(text) => write!(f, "warning: {text}"),
            Event::Restarting { service } => write!(f, "{service} restarting"),
            Event::Stopping { services: 1 } => write!(f, "stopping 1 service"),
            Event::Stopping { services } => write!(f, "stopping {services} services"),
            Event::Stopped { after } => write!(f, "all stopped after {:.1} s", after.as_secs_f64()),
        }
    }
}
