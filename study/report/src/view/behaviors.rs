//! The distinct behaviors of a sweep: cases whose requests made the same calls with the same outcomes and were judged
//! alike.
//!
//! A space of 16,384 cases may have 42 behaviors. One row per behavior can be read; one cell per case cannot.

use super::Audience;
use super::column::saturating_u32;
use model::Verdict;
use model::sweep::{Case, Ending, Sweep};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// How a case ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Fail,
    Unknown,
    Pass,
    /// Passed without any of its faults being reached.
    Unaffected,
}

impl Outcome {
    pub(crate) fn of(case: &Case) -> Outcome {
        match case.verdict {
            Verdict::Fail => Outcome::Fail,
            Verdict::Unknown => Outcome::Unknown,
            Verdict::Pass if case.fired.is_empty() && !case.sites.is_empty() => Outcome::Unaffected,
            Verdict::Pass => Outcome::Pass,
        }
    }
}

/// A fault of one or several spaces: a column of the table. Equal faults of different spaces share it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SiteColumn {
    /// The service whose calls are faulted.
    pub service: String,
    /// Short: `Convert#3`.
    pub label: String,
    /// In the notation of `--fault`.
    pub fault: String,
    pub kind: String,
    /// Indices of spaces that plan it.
    pub spaces: Vec<u32>,
    /// Cases in which it was planned, in which it fired, and of those the failing ones.
    pub planned: u64,
    pub fired: u64,
    pub failed_when_fired: u64,
}

/// Response times of cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    pub min_us: u64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub max_us: u64,
}

/// The number of cases of a behavior in one space.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SpaceCount {
    /// Index of the space.
    pub space: u32,
    pub cases: u64,
}

/// Cases whose requests made the same calls with the same outcomes and were judged alike.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Behavior {
    /// The same in every view of the run for one audience: fingerprint, outcome, status, ending and reason.
    pub id: String,
    /// 16 hexadecimal digits; behaviors with the same one differ only in how they were judged.
    pub fingerprint: String,
    pub outcome: Outcome,
    /// How failing cases ended: `returned-error`, `crashed`, `no-reply`, `wrong-content`, `too-slow`.
    #[schemars(with = "Option<String>")]
    pub ending: Option<Ending>,
    /// HTTP status or gRPC code; none without a reply.
    pub status: Option<u32>,
    /// Why the outcome is fail or unknown.
    pub reason: String,
    /// Numbers of the bugs that its cases belong to.
    pub bugs: Vec<u32>,
    pub cases: u64,
    pub spaces: Vec<SpaceCount>,
    /// One character per column: `.` never planned, `o` planned and never reached, `x` fired.
    pub cells: String,
    pub latency: Latency,
    /// The simplest case: the fewest faults, then the lowest number.
    pub example_space: u32,
    pub example_case: u64,
    /// Faults of that case, in the notation of `--fault`.
    pub example_faults: Vec<String>,
    /// Whether a request of this behavior is stored, so that it can be compared.
    pub has_trace: bool,
}

pub(super) struct Table {
    pub columns: Vec<SiteColumn>,
    pub behaviors: Vec<Behavior>,
    /// Index into `behaviors` for each case.
    pub of_case: Vec<u32>,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    fingerprint: u64,
    outcome: Outcome,
    ending: Option<Ending>,
    status: Option<u32>,
    reason: String,
}

struct Row<'a> {
    cases: Vec<&'a Case>,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    NotPlanned,
    NotReached,
    Fired,
}

/// `stored`: fingerprints of the behaviors of which a request is stored.
pub(super) fn table(sweep: &Sweep, cases: &[Case], audience: Audience, stored: &dyn Fn(u64) -> bool) -> Table {
    let (mut columns, column_of) = columns(sweep);
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut of_case = Vec::with_capacity(cases.len());
    for case in cases {
        let key = Key {
            fingerprint: case.cause_key(),
            outcome: Outcome::of(case),
            ending: case.ending,
            status: case.status,
            reason: case.reason.as_deref().map_or(String::new(), |reason| audience.reason(reason).into_owned()),
        };
        let at = *index.entry(key).or_insert_with(|| {
            rows.push(Row { cases: Vec::new(), cells: vec![Cell::NotPlanned; columns.len()] });
            rows.len() - 1
        });
        of_case.push(at);
        rows[at].cases.push(case);
        let of_site = |site: &u32| column_of.get(case.space).and_then(|of| of.get(*site as usize)).copied();
        for column in case.sites.iter().filter_map(of_site) {
            columns[column].planned += 1;
            rows[at].cells[column] = rows[at].cells[column].max(Cell::NotReached);
        }
        for column in case.fired.iter().filter_map(of_site) {
            columns[column].fired += 1;
            columns[column].failed_when_fired += u64::from(case.verdict == Verdict::Fail);
            rows[at].cells[column] = Cell::Fired;
        }
    }
    let mut keys: Vec<(Key, usize)> = index.into_iter().collect();
    keys.sort_by_key(|(_, at)| *at);
    let mut behaviors: Vec<(usize, Behavior)> =
        keys.into_iter().map(|(key, at)| (at, behavior(sweep, &key, &rows[at], stored(key.fingerprint)))).collect();
    let rank = |behavior: &Behavior| {
        (behavior.outcome, behavior.bugs.first().copied().unwrap_or(u32::MAX), std::cmp::Reverse(behavior.cases))
    };
    behaviors.sort_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id)));
    let mut place = vec![0; behaviors.len()];
    behaviors.iter().enumerate().for_each(|(now, (before, _))| place[*before] = saturating_u32(now as u64));
    Table {
        columns,
        behaviors: behaviors.into_iter().map(|(_, behavior)| behavior).collect(),
        of_case: of_case.into_iter().map(|at| place[at]).collect(),
    }
}

/// Columns grouped by service, and for each space the column of each of its sites.
fn columns(sweep: &Sweep) -> (Vec<SiteColumn>, Vec<Vec<usize>>) {
    let mut columns: Vec<SiteColumn> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    let mut of: Vec<Vec<usize>> = Vec::new();
    for (space, of_space) in sweep.spaces.iter().enumerate() {
        let mut sites = Vec::with_capacity(of_space.sites.len());
        for site in &of_space.sites {
            let fault = site.fault.to_string();
            let at = *index.entry(fault.clone()).or_insert_with(|| {
                columns.push(SiteColumn {
                    service: site.fault.selector.callee.clone(),
                    label: site.label.clone(),
                    fault,
                    kind: site.fault.kind.as_str().to_owned(),
                    spaces: Vec::new(),
                    planned: 0,
                    fired: 0,
                    failed_when_fired: 0,
                });
                columns.len() - 1
            });
            columns[at].spaces.push(saturating_u32(space as u64));
            sites.push(at);
        }
        of.push(sites);
    }
    // stable: within a service, the order of the calls of the good request
    let mut services: Vec<&str> = Vec::new();
    for column in &columns {
        if !services.contains(&column.service.as_str()) {
            services.push(&column.service);
        }
    }
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| services.iter().position(|service| *service == columns[*at].service));
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(now, before)| place[*before] = now);
    let grouped = order.iter().map(|at| columns[*at].clone()).collect();
    of.iter_mut().flatten().for_each(|at| *at = place[*at]);
    (grouped, of)
}

fn behavior(sweep: &Sweep, key: &Key, row: &Row, has_trace: bool) -> Behavior {
    let mut spaces: Vec<SpaceCount> = Vec::new();
    for case in &row.cases {
        let space = saturating_u32(case.space as u64);
        match spaces.iter_mut().find(|count| count.space == space) {
            Some(count) => count.cases += 1,
            None => spaces.push(SpaceCount { space, cases: 1 }),
        }
    }
    let simplest = row.cases.iter().min_by_key(|case| (case.sites.len(), case.space, case.case));
    let faults = simplest.map_or(Vec::new(), |case| {
        let sites = sweep.spaces.get(case.space).map_or(&[][..], |space| &space.sites);
        case.sites.iter().filter_map(|site| sites.get(*site as usize)).map(|site| site.fault.to_string()).collect()
    });
    let fails = key.outcome == Outcome::Fail;
    let bugs = sweep.bugs.iter().enumerate().filter(|(_, bug)| fails && bug.behaviors.contains(&key.fingerprint));
    let fingerprint = format!("{:016x}", key.fingerprint);
    let letter = match key.outcome {
        Outcome::Fail => 'f',
        Outcome::Unknown => 'u',
        Outcome::Pass => 'p',
        Outcome::Unaffected => 'n',
    };
    let status = key.status.map_or("none".to_owned(), |status| status.to_string());
    let ending = key.ending.map_or(String::new(), |ending| format!("-{}", ending as u8));
    let reason = if key.reason.is_empty() { String::new() } else { format!("-{:08x}", hash(&key.reason)) };
    Behavior {
        id: format!("{fingerprint}-{letter}-{status}{ending}{reason}"),
        fingerprint,
        outcome: key.outcome,
        ending: key.ending,
        status: key.status,
        reason: key.reason.clone(),
        bugs: bugs.map(|(i, _)| saturating_u32(i as u64 + 1)).collect(),
        cases: row.cases.len() as u64,
        spaces,
        cells: row
            .cells
            .iter()
            .map(|cell| match cell {
                Cell::NotPlanned => '.',
                Cell::NotReached => 'o',
                Cell::Fired => 'x',
            })
            .collect(),
        latency: latency(&row.cases),
        example_space: simplest.map_or(0, |case| saturating_u32(case.space as u64)),
        example_case: simplest.map_or(0, |case| case.case),
        example_faults: faults,
        has_trace,
    }
}

/// FNV-1a: stable, so that an address that names a behavior stays valid.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn latency(cases: &[&Case]) -> Latency {
    let mut times: Vec<u64> = cases.iter().map(|case| case.latency_us).collect();
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len().saturating_sub(1)) as f64 * share).round() as usize).copied();
    Latency {
        min_us: at(0.0).unwrap_or(0),
        p50_us: at(0.5).unwrap_or(0),
        p95_us: at(0.95).unwrap_or(0),
        max_us: at(1.0).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    fn shop_table() -> (Sweep, Vec<Case>, Table) {
        let (sweep, cases) = shop::sweep();
        let table = table(&sweep, &cases, Audience::Owner, &|_| false);
        (sweep, cases, table)
    }

    #[test]
    fn every_case_is_counted_once_in_the_behavior_it_points_to() {
        let (_, cases, table) = shop_table();
        assert_eq!(table.behaviors.iter().map(|b| b.cases).sum::<u64>(), cases.len() as u64);
        for (case, at) in cases.iter().zip(&table.of_case) {
            let behavior = &table.behaviors[*at as usize];
            assert_eq!(behavior.fingerprint, format!("{:016x}", case.fingerprint));
            assert_eq!(behavior.outcome, Outcome::of(case));
        }
        assert!(table.behaviors.len() < cases.len() / 4, "{} behaviors", table.behaviors.len());
    }

    #[test]
    fn failures_come_first_and_ids_differ() {
        let (_, _, table) = shop_table();
        let outcomes: Vec<Outcome> = table.behaviors.iter().map(|b| b.outcome).collect();
        assert!(outcomes.is_sorted() && outcomes[0] == Outcome::Fail);
        let mut ids: Vec<&str> = table.behaviors.iter().map(|b| b.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), table.behaviors.len());
    }

    #[test]
    fn a_cell_distinguishes_fired_planned_and_not_planned() {
        let (sweep, cases, table) = shop_table();
        for (case, at) in cases.iter().zip(&table.of_case).filter(|(case, _)| case.space == 2).take(500) {
            let cells: Vec<char> = table.behaviors[*at as usize].cells.chars().collect();
            for site in &case.sites {
                let fault = sweep.spaces[2].sites[*site as usize].fault.to_string();
                let column = table.columns.iter().position(|column| column.fault == fault).unwrap();
                let fired = case.fired.contains(site);
                assert!(cells[column] == 'x' || (!fired && cells[column] == 'o'), "{}", cells[column]);
            }
        }
    }

    #[test]
    fn columns_of_one_service_are_neighbors() {
        let (_, _, table) = shop_table();
        let mut services: Vec<&str> = table.columns.iter().map(|column| column.service.as_str()).collect();
        services.dedup();
        let mut distinct = services.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(services.len(), distinct.len());
    }

    #[test]
    fn a_fault_that_always_fails_when_it_fires_says_so() {
        let (_, cases, table) = shop_table();
        let column = table.columns.iter().find(|column| column.label == "Convert#2").expect("a column");
        assert!(column.fired > 0 && column.planned >= column.fired);
        assert_eq!(column.failed_when_fired, column.fired);
        assert!(column.planned < cases.len() as u64);
    }

    #[test]
    fn a_behavior_belongs_to_the_bug_of_its_cases() {
        let (mut sweep, cases) = shop::sweep();
        let failing = cases.iter().find(|case| case.verdict == Verdict::Fail).expect("a failing case");
        sweep.bugs[1].behaviors.insert(failing.fingerprint);
        let table = table(&sweep, &cases, Audience::Owner, &|fingerprint| fingerprint == failing.fingerprint);
        let of_bug: Vec<&Behavior> = table.behaviors.iter().filter(|b| b.bugs == [2]).collect();
        assert!(of_bug.iter().any(|b| b.fingerprint == format!("{:016x}", failing.fingerprint) && b.has_trace));
        assert!(of_bug.iter().all(|b| b.outcome == Outcome::Fail));
    }
}
