//! The workloads: languages, request shapes, sampling rates and modes.

/// The language of the services. The load generator is always Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Go,
    Java,
    Python,
    Node,
}

impl Language {
    pub const ALL: [Language; 4] = [Language::Go, Language::Java, Language::Python, Language::Node];

    pub fn name(self) -> &'static str {
        match self {
            Language::Go => "go",
            Language::Java => "java",
            Language::Python => "python",
            Language::Node => "node",
        }
    }
}

/// How the processes of a chain are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    UntracedA,
    UntracedB,
    Faultloom,
    Dormant,
    OpenTelemetry,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::UntracedA => "untraced a",
            Mode::UntracedB => "untraced b",
            Mode::Faultloom => "faultloom",
            Mode::Dormant => "faultloom, untraced",
            Mode::OpenTelemetry => "opentelemetry",
        }
    }
}

/// One comparison of modes.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub language: Language,
    /// From the outermost to the innermost.
    pub services: &'static [&'static str],
    /// Number of sequential calls from the outermost service to the next one, per request.
    pub calls: u32,
    /// One in `sample` requests is traced.
    pub sample: u32,
    pub modes: &'static [Mode],
    /// Number of epochs. Each starts new processes. The interval is computed from their medians, which needs at least
    /// six.
    pub epochs: usize,
    /// Rounds per epoch.
    pub rounds: usize,
    pub window_ms: u64,
    /// Load before the measured part of a window.
    pub lead_ms: u64,
    /// Whether each epoch links its services again (Go), because the positions of functions affect speed.
    pub relinked: bool,
    /// Load before an epoch is measured: it fills pools, opens connections and compiles code.
    pub warm_up_ms: u64,
}

const CHAIN: &[&str] = &["orders", "prices", "stock"];
const PAIR: &[&str] = &["orders", "prices"];
const ALL: &[Mode] = &[Mode::UntracedA, Mode::UntracedB, Mode::Faultloom, Mode::Dormant, Mode::OpenTelemetry];
const TRACED: &[Mode] = &[Mode::UntracedA, Mode::UntracedB, Mode::Faultloom, Mode::OpenTelemetry];
const DORMANT: &[Mode] = &[Mode::UntracedA, Mode::UntracedB, Mode::Dormant];

impl Workload {
    const fn chain(name: &'static str, language: Language) -> Workload {
        Workload {
            name,
            language,
            services: CHAIN,
            calls: 1,
            sample: 1,
            modes: ALL,
            epochs: 24,
            rounds: 16,
            window_ms: 150,
            lead_ms: 30,
            relinked: false,
            warm_up_ms: 600,
        }
    }

    /// The overhead of an untraced request. The speed of a machine changes within tenths of a second by more than this
    /// overhead, so windows are as short as latency and garbage collection allow, and there are thousands of them.
    const fn dormant(name: &'static str, language: Language, warm_up_ms: u64) -> Workload {
        let chain = Workload::chain(name, language);
        Workload { modes: DORMANT, epochs: 24, rounds: 45, window_ms: 100, lead_ms: 30, warm_up_ms, ..chain }
    }

    const fn wide(name: &'static str, calls: u32) -> Workload {
        Workload { services: PAIR, calls, modes: TRACED, epochs: 8, rounds: 6, ..Workload::chain(name, Language::Go) }
    }

    const fn sampled(name: &'static str, sample: u32) -> Workload {
        Workload { sample, modes: TRACED, epochs: 8, rounds: 6, ..Workload::chain(name, Language::Go) }
    }

    /// All workloads. The chain in Go is first, because it has the longest series of results.
    pub fn all() -> Vec<Workload> {
        vec![
            Workload { epochs: 48, relinked: true, ..Workload::chain("chain", Language::Go) },
            // three JVMs on two cores compile for more than 30 s: after 15 s they reach a third of their throughput
            Workload {
                epochs: 6,
                rounds: 12,
                window_ms: 300,
                warm_up_ms: 40_000,
                ..Workload::chain("chain java", Language::Java)
            },
            // OpenTelemetry exports batches of 512 spans: at 500 requests/s, a shorter window could end before the
            // first export
            Workload {
                rounds: 3,
                window_ms: 2_000,
                warm_up_ms: 2_000,
                ..Workload::chain("chain python", Language::Python)
            },
            Workload {
                epochs: 12,
                rounds: 10,
                window_ms: 300,
                warm_up_ms: 10_000,
                ..Workload::chain("chain node", Language::Node)
            },
            Workload {
                epochs: 64,
                rounds: 100,
                window_ms: 50,
                lead_ms: 10,
                relinked: true,
                ..Workload::dormant("dormant", Language::Go, 600)
            },
            // starts differ by 2 %, windows of 80 ms by 17 %: hundreds of rounds make up for the long warm-up of an
            // epoch
            Workload {
                epochs: 28,
                rounds: 400,
                window_ms: 80,
                lead_ms: 20,
                ..Workload::dormant("dormant java", Language::Java, 30_000)
            },
            // starts of the same program differ by 4 % (standard deviation), which more windows do not reduce
            Workload { epochs: 150, rounds: 15, ..Workload::dormant("dormant python", Language::Python, 700) },
            // starts differ by 2.5 %, windows of 200 ms by 17 %: given these and the warm-up, 40 rounds per epoch give
            // the smallest interval for the total time
            Workload {
                epochs: 44,
                rounds: 40,
                window_ms: 200,
                lead_ms: 20,
                ..Workload::dormant("dormant node", Language::Node, 7_000)
            },
            Workload::wide("fan-out 8", 8),
            Workload::wide("history of 10 events", 2),
            Workload::wide("history of 100 events", 24),
            Workload { rounds: 3, window_ms: 1000, ..Workload::wide("history of 1,000 events", 249) },
            Workload::sampled("sampling 1/4", 4),
            Workload::sampled("sampling 1/16", 16),
            Workload::sampled("sampling 1/64", 64),
            Workload::sampled("sampling 1/256", 256),
        ]
    }

    /// A short form that only proves that the workload runs. None if a workload of the same kind has one.
    pub fn quick(self) -> Option<Workload> {
        let is_selected = self.modes.len() == ALL.len()
            || matches!(self.calls, 8)
            || matches!(self.sample, 4)
            || self.name == "dormant";
        is_selected.then_some(Workload { epochs: 1, rounds: 2, window_ms: 200, warm_up_ms: 300, ..self })
    }

    pub fn has(&self, mode: Mode) -> bool {
        self.modes.contains(&mode)
    }

    /// Calls of one request, the first one included.
    pub fn calls_per_request(&self) -> u64 {
        let inner = self.services.len() as u64 - 1;
        1 + u64::from(self.calls) * inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_have_the_number_of_events_in_their_names() {
        for w in Workload::all() {
            let Some(events) = w.name.strip_prefix("history of ") else { continue };
            let expected: u64 = events.replace(',', "").split(' ').next().unwrap().parse().unwrap();
            let events = 4 * w.calls_per_request();
            assert!(events.abs_diff(expected) <= 2, "{}: {events}", w.name);
        }
        assert_eq!(Workload::all()[0].calls_per_request(), 3);
        assert_eq!(Workload::wide("", 8).calls_per_request(), 9);
    }
}
