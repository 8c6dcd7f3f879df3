//! A progress line with rate and time left: a bar on a terminal, a line every few seconds elsewhere, nothing with
//! `--quiet`.

use app::text::{grouped, seconds};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(5);
/// A rate over less time is not shown.
const RATE_AFTER: Duration = Duration::from_millis(300);

/// Columns of the name of a space: `crash-points lost-reply`.
pub const SPACE_NAME: usize = 23;

/// One state of a progress line. Without a total, only `words` is shown.
pub struct Line {
    name: String,
    done: u64,
    total: u64,
    /// The total is a lower bound, and so is the time left.
    may_grow: bool,
    words: String,
}

impl Line {
    pub fn counts(name: &str, done: u64, total: u64, may_grow: bool, words: String) -> Line {
        Line { name: name.to_owned(), done, total, may_grow, words }
    }

    /// `first`: what was done when the measured time began.
    fn text(&self, first: u64, elapsed: Duration) -> String {
        let at_least = if self.may_grow { "at least " } else { "" };
        let counts = format!("{} of {at_least}{}   {}", grouped(self.done), grouped(self.total), self.words);
        let new = self.done.saturating_sub(first);
        if elapsed < RATE_AFTER || new == 0 {
            return counts;
        }
        let rate = new as f64 / elapsed.as_secs_f64();
        let left = seconds(self.total.saturating_sub(self.done) as f64 / rate);
        format!("{counts}   {}   {at_least}{left} left", rate_text(rate))
    }
}

/// `1,234/s`, below ten `1.2/s`, below one per second `12/min`.
fn rate_text(per_s: f64) -> String {
    match per_s {
        10.0.. => format!("{}/s", grouped(per_s as u64)),
        1.0.. => format!("{per_s:.1}/s"),
        _ => format!("{:.1}/min", per_s * 60.0),
    }
}

pub struct Meter {
    bar: Option<ProgressBar>,
    quiet: bool,
    begin: Instant,
    first_done: Option<u64>,
    last_line: Instant,
}

impl Meter {
    pub fn new(quiet: bool) -> Meter {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8));
            bar.set_style(
                ProgressStyle::with_template("   {msg:<14} {bar:24} {prefix}")
                    .expect("a constant template")
                    .progress_chars("█▉▊▋▌▍▎▏ "),
            );
            bar
        });
        Meter { bar, quiet, begin: Instant::now(), first_done: None, last_line: Instant::now() }
    }

    pub fn update(&mut self, line: Line) {
        let p = line;
        if p.total == 0 {
            return self.show(&p, p.words.clone());
        }
        // Measured from the first update on: work of an earlier process, and the time before, do not count.
        if self.first_done.is_none_or(|first| p.done < first) {
            self.first_done = Some(p.done);
            self.begin = Instant::now();
        }
        let text = p.text(self.first_done.unwrap_or_default(), self.begin.elapsed());
        self.show(&p, text);
    }

    fn show(&mut self, p: &Line, counts: String) {
        if let Some(bar) = &self.bar {
            bar.set_length(p.total.max(1));
            bar.set_position(p.done);
            bar.set_message(p.name.clone());
            bar.set_prefix(counts);
        } else if !self.quiet && self.last_line.elapsed() >= LINE_EVERY {
            eprintln!("   {:<SPACE_NAME$} {counts}", p.name);
            self.last_line = Instant::now();
        }
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(done: u64, total: u64, may_grow: bool, first: u64, elapsed_ms: u64) -> String {
        Line::counts("guided", done, total, may_grow, "0 failures".into())
            .text(first, Duration::from_millis(elapsed_ms))
    }

    #[test]
    fn the_time_left_follows_from_the_rate_of_this_process() {
        assert_eq!(text(100, 200, false, 50, 5000), "100 of 200   0 failures   10/s   10 s left");
        assert_eq!(text(15, 45, false, 0, 10_000), "15 of 45   0 failures   1.5/s   20 s left");
        assert_eq!(text(2, 4, false, 0, 4000), "2 of 4   0 failures   30.0/min   4.0 s left");
        assert_eq!(text(100, 200, false, 100, 5000), "100 of 200   0 failures");
        assert_eq!(text(100, 200, false, 0, 100), "100 of 200   0 failures");
    }

    #[test]
    fn a_total_that_may_grow_is_a_lower_bound_and_so_is_the_time_left() {
        assert_eq!(text(10, 40, true, 0, 5000), "10 of at least 40   0 failures   2.0/s   at least 15 s left");
    }
}
