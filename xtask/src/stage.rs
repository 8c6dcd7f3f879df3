//! Stages with their times, printed as they end: what `demo` and `test` are made of.

use std::time::Instant;

pub struct Stages {
    list: Vec<(String, f64)>,
}

impl Stages {
    pub fn new() -> Stages {
        Stages { list: Vec::new() }
    }

    /// Runs one stage; `work` returns the words behind its name.
    pub fn run(&mut self, name: &str, work: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
        let begin = Instant::now();
        let result = work();
        let seconds = begin.elapsed().as_secs_f64();
        self.list.push((name.to_owned(), seconds));
        match result {
            Ok(words) => {
                println!(" ✓ {name:<10} {words:<62} {seconds:>5.0} s");
                Ok(())
            }
            Err(e) => {
                println!(" ✗ {name:<10} {:<62} {seconds:>5.0} s", "");
                Err(e)
            }
        }
    }

    /// Name and seconds of every stage so far.
    pub fn seconds(&self) -> &[(String, f64)] {
        &self.list
    }
}
