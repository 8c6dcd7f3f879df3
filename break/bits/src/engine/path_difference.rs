//! The first point at which two undisturbed runs take different paths.

use crate::engine::golden_run::GoldenRun;
use crate::plan::stream::Stream;
use crate::program::modules::Modules;
use crate::tracing::code::Code;
use model::Failure;

/// Why the program is refused whose run differs from its first in an entry. `again` is a part of that run, in which the
/// entry is number `part`.
pub fn refusal(run: &GoldenRun, first: &Stream, entry: usize, again: &Stream, part: usize) -> Failure {
    let code = &run.golden.code;
    let modules = &mut run.filter.modules.borrow_mut();
    let [one, other] =
        [(first, entry), (again, part)].map(|(stream, entry)| stream.instructions_of(code, entry).first().copied());
    let mut place =
        |ip: Option<u64>| ip.map_or_else(|| "ends".to_owned(), |ip| format!("continues at {}", text(modules, ip)));
    let (one, other) = (place(one), place(other));
    let paths = match one == other {
        true => format!("both {one}, and a string instruction there has another number of iterations"),
        false => format!("one run {one}, the other {other}"),
    };
    let last = entry.checked_sub(1).and_then(|before| first.instructions_of(code, before).last().copied());
    let after = last.map_or_else(String::new, |ip| format!(", after {}", text(modules, ip)));
    let call = last_call(code, first, entry);
    let call =
        call.map_or_else(String::new, |ip| format!("; the last system call before was in {}", text(modules, ip)));
    failure(format!("they differ first at instruction {}{after}: {paths}{call}", first.position_of(code, entry)))
}

/// Fails if a run is not where a flip was planned: programs that are stepped to breakpoints are profiled once.
pub fn check_at_flip(run: &GoldenRun, position: u64, ip: u64) -> Result<(), Failure> {
    if run.golden.position == position && run.golden.ip() == ip {
        return Ok(());
    }
    let modules = &mut run.filter.modules.borrow_mut();
    let planned = text(modules, ip);
    let place = match run.golden.position == position {
        true => format!("the other at {}", text(modules, run.golden.ip())),
        false => format!("the other ends after instruction {}", run.golden.position),
    };
    Err(failure(format!("at instruction {position}, one run is at {planned}, {place}")))
}

fn failure(why: String) -> Failure {
    Failure::environment("two undisturbed runs of the program take different paths").why(why).next(
        "make what it reads there the same in every run. Random numbers, addresses and process ids are \
         already, and time before the program starts a thread; inode numbers and times of new files, and /proc, are not",
    )
}

/// `function in module`, or the module and an offset.
fn text(modules: &mut Modules, ip: u64) -> String {
    let place = modules.locate(ip);
    match (place.symbol, place.module) {
        (symbol, module) if module.is_empty() => symbol.unwrap_or_else(|| format!("{ip:#x}")),
        (Some(symbol), module) => format!("{symbol} ({module}+{:#x})", place.offset),
        (None, module) => format!("{module}+{:#x}", place.offset),
    }
}

/// The address of the last system call before an entry.
fn last_call(code: &Code, stream: &Stream, entry: usize) -> Option<u64> {
    (0..entry).rev().take(CALL_SEARCH_MAX).find_map(|before| {
        let ip = *stream.instructions_of(code, before).last()?;
        let instruction = code.instruction_at(ip)?;
        (instruction.flow() == crate::processor::control_flow::ControlFlow::Syscall).then_some(ip)
    })
}

/// A call that is further away is no hint.
const CALL_SEARCH_MAX: usize = 1_000_000;
