//! Named steps. Each prints its summary and duration when it ends: the output of `demo` and `soak`.

use std::time::Instant;

pub struct Steps {
    list: Vec<(String, f64)>,
}

impl Steps {
    pub fn new() -> Steps {
        Steps { list: Vec::new() }
    }

    /// Runs one step. `work` returns the summary that is printed after its name.
    pub fn run(&mut self, name: &str, work: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
        let begin = Instant::now();
        let result = work();
        let seconds = begin.elapsed().as_secs_f64();
        self.list.push((name.to_owned(), seconds));
        match result {
            Ok(summary) => {
                println!(" ✓ {name:<10} {summary:<62} {seconds:>5.0} s");
                Ok(())
            }
            Err(e) => {
                println!(" ✗ {name:<10} {:<62} {seconds:>5.0} s", "");
                Err(e)
            }
        }
    }

    /// Name and duration in seconds of all completed steps.
    pub fn seconds(&self) -> &[(String, f64)] {
        &self.list
    }
}
