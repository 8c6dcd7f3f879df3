//! One injection in a terminal: what was flipped, how the error spread, and the outcome.

use app::text::{grouped, plural, printable};
use model::campaign::Logged;
use model::flip::{Ending, Injection};

/// The outcome of one injection, in a few words.
pub fn outcome(logged: &Logged) -> String {
    let ending = match logged.effect.ending {
        Ending::Exit(status) => format!("exit {status}"),
        Ending::Signal(signal) => format!("signal {signal}"),
        Ending::Hang => "hang".to_owned(),
    };
    let kind = logged.deviation.as_ref().map_or(String::new(), |d| format!(", {}", d.kind.as_str()));
    format!("{}{kind}, {ending}", logged.outcome_text())
}

/// The location of an instruction: function, source line, module and offset in it.
pub fn location(injection: &Injection) -> String {
    let symbol = injection.symbol.as_ref().map_or_else(|| "no symbol".to_owned(), |symbol| printable(symbol));
    let source = injection.source.as_ref().map_or(String::new(), |source| format!(", {}", printable(source)));
    format!("{symbol}{source}  ({}+{:#x})", printable(&injection.module), injection.offset)
}

/// What was flipped and how the error spread.
pub fn story(logged: &Logged) -> String {
    let mut out = String::new();
    if let Some(injection) = &logged.injection {
        out.push_str(&format!(
            " {}  {} bit {}  {}\n",
            injection.id,
            injection.kind,
            injection.bit,
            printable(&injection.instruction)
        ));
        out.push_str(&format!(" at         {}\n", location(injection)));
        out.push_str(&format!(" after      {} instructions\n", grouped(injection.position)));
        out.push_str(&format!(" hit        {}\n", printable(&logged.effect.hit)));
    } else {
        out.push_str(&format!(" run {}\n", logged.id + 1));
    }
    if let Some(deviation) = &logged.deviation {
        out.push_str(&format!(
            " first seen {}, message {} of {}, byte {}\n",
            printable(&deviation.connection),
            deviation.reply + 1,
            grouped(deviation.replies),
            grouped(deviation.byte)
        ));
        if let Some(replies) = deviation.replies_since {
            out.push_str(&format!(" since then {} before it\n", plural(replies, "message")));
        }
        out.push_str(&format!("   golden   {}\n", printable(&deviation.golden)));
        out.push_str(&format!("   seen     {}\n", printable(&deviation.actual)));
    }
    if let Some(crash) = &logged.effect.crash {
        let symbol = crash.symbol.as_ref().map_or(String::new(), |symbol| format!(" in {}", printable(symbol)));
        let at = if crash.ip == 0 { String::new() } else { format!(" at {:#x}", crash.ip) };
        out.push_str(&format!(" crash      signal {}{at}{symbol}\n", crash.signal));
    }
    let of = if logged.injection.is_some() { " of CPU after the flip" } else { "" };
    out.push_str(&format!(" outcome    {}, {} µs{of}\n", outcome(logged), grouped(logged.effect.cpu_us)));
    if let Some(remark) = &logged.remark {
        out.push_str(&format!(" remark     {}\n", printable(remark)));
    }
    out
}
