//! Events of a use case as lines on standard error, with a progress line for work that is counted.

use super::flip;
use super::progress::{Line, Meter, SPACE_NAME};
use app::Event;
use app::event::Progress;
use app::text::{grouped, plural, seconds};
use model::sweep::Space;
use std::sync::{Mutex, PoisonError};

pub struct EventPrinter {
    quiet: bool,
    /// Of the work under way, with its name.
    meter: Mutex<Option<(String, Meter)>>,
}

impl EventPrinter {
    pub fn new(quiet: bool) -> EventPrinter {
        EventPrinter { quiet, meter: Mutex::new(None) }
    }

    pub fn print(&self, event: &Event) {
        if let Event::ServiceGivenUp { service, reason } = event {
            eprintln!("{reason}\n   not restarting {service} again; the other services keep running");
        }
        if self.quiet {
            return;
        }
        let mut current = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Progress(Progress::Counts { name, done, total, may_grow, detail }) = event {
            if current.as_ref().is_none_or(|(other, _)| other != name)
                && let Some((_, finished)) = current.replace((name.clone(), Meter::new(self.quiet)))
            {
                finished.clear();
            }
            if let Some((_, meter)) = current.as_mut() {
                meter.update(Line::counts(name, *done, *total, *may_grow, detail.clone()));
            }
            return;
        }
        if let Some((_, finished)) = current.take() {
            finished.clear();
        }
        if let Some(line) = line(event) {
            eprintln!("{line}");
        }
    }

    /// Removes the progress line.
    pub fn clear(&self) {
        if let Some((_, meter)) = self.meter.lock().unwrap_or_else(PoisonError::into_inner).take() {
            meter.clear();
        }
    }
}

/// None for events whose content the command prints as its result.
fn line(event: &Event) -> Option<String> {
    let progress = match event {
        Event::Progress(progress) => progress,
        Event::Warning { message } => return Some(format!("   {message}")),
        Event::Started { .. } | Event::ServiceGivenUp { .. } | Event::Finding { .. } | Event::Done { .. } => {
            return None;
        }
    };
    Some(match progress {
        Progress::TargetStarting { target, services } => {
            format!("   starting {} of {target}", plural(*services, "service"))
        }
        Progress::TargetHealthy { seconds } => format!("   all healthy after {seconds:.1} s"),
        Progress::ServiceRestarted { service } => {
            format!("   {service} crashed on its own and was restarted; the request was sent again")
        }
        Progress::ServiceCrashed { service, status, log } => {
            format!("   {service} crashed on its own ({status}); its log: {}", log.display())
        }
        Progress::ServiceRunning { service } => format!("   {service} is running again"),
        Progress::Reference { request, calls, services, gaps } => format!(
            "   {request}: {}, {}, {}",
            plural(*calls, "call"),
            plural(*services, "service"),
            if *gaps == 0 { "no gaps".to_owned() } else { plural(*gaps, "gap") }
        ),
        Progress::SpaceFinished { space, stored } => space_line(space, *stored),
        Progress::VariantFinished { variant } => format!(" ✓ {}", flip::sentence(variant)),
        Progress::Step { message } => format!("   {message}"),
        Progress::RangeObserved { .. } | Progress::Counts { .. } => return None,
    })
}

/// The rate is that of the cases that were sent now, without those that were `stored` before.
fn space_line(space: &Space, stored: u64) -> String {
    let unknown = if space.unknown > 0 { format!("   {} unknown", grouped(space.unknown)) } else { String::new() };
    let before = if stored > 0 { format!(", {} before", grouped(stored)) } else { String::new() };
    format!(
        " ✓ {:<SPACE_NAME$} {:>6} of {:<6}  {:>13}   {:>3} behaviors{unknown}   {}  ({}/s{before})",
        space.name,
        grouped(space.cases),
        grouped(space.cases),
        plural(space.failures, "failure"),
        space.behaviors,
        seconds(space.seconds),
        grouped((space.cases.saturating_sub(stored) as f64 / space.seconds.max(0.001)) as u64)
    )
}
