//! Flips in a running process, in a terminal: what each hit, what clients observed, and the state of the process.

use super::flip::tables;
use super::flip_story::location;
use app::text::{plural, printable};
use model::campaign::{Campaign, LiveProcess, Logged, Variant};
use model::flip::FlipType;

/// Flips that are listed one by one.
const LISTED_MAX: usize = 20;

/// The running process whose bits were flipped. None for a campaign in a sandbox.
pub fn of(campaign: &Campaign) -> Option<(&Variant, &LiveProcess)> {
    campaign.variants.iter().find_map(|variant| variant.live.as_ref().map(|process| (variant, process)))
}

/// The flips, their sum, doubts, and what to do with the process. With `all`, every flip.
pub fn text(campaign: &Campaign, variant: &Variant, process: &LiveProcess, doubts: &[String], all: bool) -> String {
    let tried = variant.tally.tried();
    let mut out = format!(" {} · process {} · {}\n\n", printable(&variant.name), process.pid, plural(tried, "flip"));
    let most = if all { usize::MAX } else { LISTED_MAX };
    for logged in process.flips.iter().take(most) {
        out.push_str(&flip(logged));
    }
    let more = (tried as usize).saturating_sub(process.flips.len().min(most));
    if more > 0 {
        out.push_str(&format!(" … and {}\n", plural(more as u64, "more flip")));
        out.push_str(&format!("\n{}", tables(campaign)));
    }
    out.push('\n');
    for line in doubts.iter().map(|doubt| format!("unknown: {doubt}")).chain(variant.remarks.iter().cloned()) {
        out.push_str(&format!(" {}\n", printable(&line)));
    }
    out.push_str(&format!(" {}\n", sum(variant)));
    out.push_str(match process.is_running {
        true => " the process runs, and stays as corrupt as it is: restart it before you rely on it\n",
        false => " the process has ended: start it again\n",
    });
    out
}

fn flip(logged: &Logged) -> String {
    let mut out = String::new();
    let Some(injection) = &logged.injection else { return out };
    let thread = logged.live.map_or(String::new(), |live| format!("   thread {}", live.thread));
    let (what, hit) = (printable(&injection.instruction), printable(&logged.effect.hit));
    let bit = match injection.kind {
        FlipType::Asc => String::new(),
        _ => format!(" bit {}", injection.bit),
    };
    out.push_str(&format!(" {:<4} {}{bit} of {what}   {hit}\n", injection.id + 1, injection.kind));
    out.push_str(&format!("      at {}{thread}\n", location(injection)));
    out.push_str(&format!("      {}\n", outcome(logged)));
    if let Some(deviation) = &logged.deviation {
        out.push_str(&format!("      before {}\n", printable(&deviation.golden)));
        out.push_str(&format!("      now    {}\n", printable(&deviation.actual)));
    }
    out
}

/// The outcome, and how it was observed.
fn outcome(logged: &Logged) -> String {
    let ended = logged.live.is_some_and(|live| !live.is_running);
    let parts = [ended.then(|| "the process has ended".to_owned()), logged.remark.as_ref().map(|r| printable(r))];
    let parts: Vec<String> =
        [logged.outcome_text().to_owned()].into_iter().chain(parts.into_iter().flatten()).collect();
    parts.join(" · ")
}

fn sum(variant: &Variant) -> String {
    let tally = &variant.tally;
    let parts = [
        (tally.none, "no effect"),
        (tally.undetected, "undetected"),
        (tally.hardening, "detected by hardening"),
        (tally.otherwise, "detected otherwise"),
        (tally.inactive, "not injected"),
        (tally.unjudged, "not judged"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
    if parts.is_empty() { "nothing was flipped".to_owned() } else { parts.join(" · ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::campaign::{LiveFlip, Role, Tally};
    use model::flip::{BitPolicy, Effect, Ending, Injection, Outcome};

    fn logged(outcome: Option<Outcome>, runs: bool, remark: Option<&str>) -> Logged {
        Logged {
            variant: 0,
            id: 0,
            role: Role::Flip,
            injection: Some(Injection {
                id: 0,
                kind: FlipType::Wreg,
                position: 9,
                iteration: 0,
                operand: 0,
                bit: 3,
                seed: 1,
                ip: 0x1000,
                instruction: "mov eax,[rdi]".to_owned(),
                class: "move".to_owned(),
                module: "server".to_owned(),
                offset: 0x40,
                symbol: Some("answer".to_owned()),
                source: Some("server.c:7".to_owned()),
            }),
            effect: Effect {
                hit: "rax 0x5 -> 0xd".to_owned(),
                activated: true,
                ending: Ending::Exit(1),
                crash: None,
                cpu_us: 0,
                refused_calls: 0,
            },
            outcome,
            deviation: None,
            remark: remark.map(str::to_owned),
            live: Some(LiveFlip { thread: 12, is_running: runs }),
        }
    }

    fn text(flips: Vec<Logged>, tally: Tally, runs: bool) -> String {
        let process = LiveProcess { pid: 11, check: None, is_running: runs, flips };
        let variant = Variant { name: "server".to_owned(), tally, live: Some(process), ..Variant::default() };
        let variants = vec![variant];
        let campaign = Campaign {
            protocol: String::new(),
            hardened: false,
            seed: 1,
            bits: BitPolicy::Full,
            types: vec![],
            variants,
        };
        let (variant, process) = of(&campaign).unwrap();
        super::text(&campaign, variant, process, &[], false)
    }

    #[test]
    fn each_flip_has_its_location_and_its_outcome() {
        let wrong = logged(Some(Outcome::Undetected), true, Some("the check ended with status 1: wrong"));
        let shown = text(vec![wrong], Tally { undetected: 1, ..Tally::default() }, true);
        let expected = [
            " server · process 11 · 1 flip",
            "",
            " 1    WREG bit 3 of mov eax,[rdi]   rax 0x5 -> 0xd",
            "      at answer, server.c:7  (server+0x40)   thread 12",
            "      undetected · the check ended with status 1: wrong",
            "",
            " 1 undetected",
            " the process runs, and stays as corrupt as it is: restart it before you rely on it",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn many_flips_are_a_table_and_an_ended_process_is_reported() {
        let flips: Vec<Logged> = (0..30).map(|_| logged(Some(Outcome::Otherwise), false, None)).collect();
        let shown = text(flips, Tally { otherwise: 30, ..Tally::default() }, false);
        assert!(shown.contains("and 10 more flips") && shown.contains("of these undetected"), "{shown}");
        assert!(shown.contains("detected otherwise · the process has ended"), "{shown}");
        assert!(shown.ends_with("the process has ended: start it again\n"), "{shown}");
    }
}
