//! A progress line with rate and time left: a bar on a terminal, a line every few seconds elsewhere, nothing with
//! `--quiet`.

use app::text::{grouped, seconds};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(5);

/// One state of a progress line. Without a total, only `words` is shown.
pub struct Line {
    name: String,
    done: u64,
    total: u64,
    words: String,
}

impl Line {
    pub fn counts(name: &str, done: u64, total: u64, words: String) -> Line {
        Line { name: name.to_owned(), done, total, words }
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
        // a new count
        if self.first_done.is_some_and(|first| p.done < first) {
            self.first_done = None;
            self.begin = Instant::now();
        }
        let first = *self.first_done.get_or_insert(p.done);
        let elapsed = self.begin.elapsed().as_secs_f64();
        let rate = if elapsed > 0.3 { (p.done - first) as f64 / elapsed } else { 0.0 };
        let left = if rate > 0.0 {
            format!("{}/s   {} left", grouped(rate as u64), seconds(p.total.saturating_sub(p.done) as f64 / rate))
        } else {
            String::new()
        };
        self.show(&p, format!("{} of {}   {}   {left}", grouped(p.done), grouped(p.total), p.words));
    }

    fn show(&mut self, p: &Line, counts: String) {
        if let Some(bar) = &self.bar {
            bar.set_length(p.total.max(1));
            bar.set_position(p.done);
            bar.set_message(p.name.clone());
            bar.set_prefix(counts);
        } else if !self.quiet && self.last_line.elapsed() >= LINE_EVERY {
            eprintln!("   {:<14} {counts}", p.name);
            self.last_line = Instant::now();
        }
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
