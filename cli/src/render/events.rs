//! Events of a use case as lines on standard error.

use app::Event;
use app::event::Progress;
use app::text::plural;

pub fn print(event: &Event) {
    eprintln!("{}", line(event));
}

fn line(event: &Event) -> String {
    match event {
        Event::Progress(Progress::TargetStarting { target, services }) => {
            format!("   starting {} of {target}", plural(*services, "service"))
        }
        Event::Progress(Progress::TargetHealthy { seconds }) => format!("   all healthy after {seconds:.1} s"),
        Event::Progress(Progress::Step { message }) | Event::Warning { message } => format!("   {message}"),
    }
}
