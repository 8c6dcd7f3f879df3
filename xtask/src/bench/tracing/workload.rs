//! What is measured: languages, shapes of requests, sampling, and the variants that take turns.

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

/// A variant of all processes of a chain.
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

/// One comparison.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub language: Language,
    /// From the outermost to the innermost.
    pub services: &'static [&'static str],
    /// How often the outermost service calls the next one for each request, one call after the other.
    pub calls: u32,
    /// One in so many requests is traced.
    pub sample: u32,
    pub modes: &'static [Mode],
    /// Each has fresh processes. The interval is that of their medians, so it needs six at least.
    pub epochs: usize,
    /// In each epoch.
    pub rounds: usize,
    pub window_ms: u64,
    /// What a window begins with and does not measure.
    pub lead_ms: u64,
    /// Each epoch measures other builds (Go): where the linker puts functions is luck as well.
    pub relinked: bool,
    /// Before an epoch is measured: pools filled, connections opened, code compiled.
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

    /// What a request pays that nobody traces. A machine's speed changes within tenths of a second, by more than is looked for:
    /// windows are as short as latencies and collectors allow, and there are thousands of them.
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

    /// All of them. The chain in Go comes first: it is the one with the longest history of figures.
    pub fn all() -> Vec<Workload> {
        vec![
            Workload { epochs: 48, relinked: true, ..Workload::chain("chain", Language::Go) },
            // three JVMs on two cores compile what is busy for more than half a minute: after 15 s they reach a third of their throughput
            Workload {
                epochs: 6,
                rounds: 12,
                window_ms: 300,
                warm_up_ms: 40_000,
                ..Workload::chain("chain java", Language::Java)
            },
            // OpenTelemetry exports when it has 512 spans: at 500 requests per second a shorter window would end before it has exported anything
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
            // two starts differ by 2 %, two windows of 80 ms by 17 %: an epoch is worth its warm-up only if it has hundreds of rounds
            Workload {
                epochs: 28,
                rounds: 400,
                window_ms: 80,
                lead_ms: 20,
                ..Workload::dormant("dormant java", Language::Java, 30_000)
            },
            // two starts of the same program differ by 4 % (standard deviation), which no number of windows averages out
            Workload { epochs: 150, rounds: 15, ..Workload::dormant("dormant python", Language::Python, 700) },
            // two starts differ by 2.5 %, two windows of 200 ms by 17 %: the most certain in a given time are many epochs, no longer than
            // these two and the warm-up ask for
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

    /// Only proves that it runs: one of each sort, in no time.
    pub fn quick(self) -> Option<Workload> {
        let sort = self.modes.len() == ALL.len()
            || matches!(self.calls, 8)
            || matches!(self.sample, 4)
            || self.name == "dormant";
        sort.then_some(Workload { epochs: 1, rounds: 2, window_ms: 200, warm_up_ms: 300, ..self })
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
    fn histories_have_the_events_their_names_say() {
        for w in Workload::all() {
            let Some(events) = w.name.strip_prefix("history of ") else { continue };
            let wanted: u64 = events.replace(',', "").split(' ').next().unwrap().parse().unwrap();
            let events = 4 * w.calls_per_request();
            assert!(events.abs_diff(wanted) <= 2, "{}: {events}", w.name);
        }
        assert_eq!(Workload::all()[0].calls_per_request(), 3);
        assert_eq!(Workload::wide("", 8).calls_per_request(), 9);
    }
}
