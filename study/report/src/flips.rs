//! The page of a bit flip campaign: outcomes, outcomes by flipped part, undetected flips, the paper's tables for
//! comparison.

use crate::escape::{put, text};
use crate::flip_latency as latency;
use crate::flip_live as live;
use crate::flip_pictures as pictures;
use crate::flip_tables as tables;
use crate::notes::{self, Note};
use crate::page::{self, Page, Section};
use crate::words::{count, counted, duration};
use crate::{FlipReport, flip_every};
use model::campaign::{Campaign, Logged, Variant};

/// Undetected flips that are described one by one.
pub(crate) const STORIES: usize = 60;

pub(crate) fn html(report: &FlipReport) -> String {
    let FlipReport { run, campaign } = *report;
    let notes = notes_of(campaign);
    let warnings = notes.iter().filter(|note| note.warns).count();
    let undetected: u64 = campaign.variants.iter().map(|v| v.tally.undetected).sum();
    let errors: u64 = campaign.variants.iter().map(|v| v.tally.manifested()).sum();
    let tried: u64 = campaign.variants.iter().map(|v| v.tally.tried()).sum();
    let mut lead = String::from("<p class=lead>");
    put!(
        lead,
        "{}<strong>{} undetected</strong> of {} from {}</p>",
        page::verdict(run.verdict),
        count(undetected),
        counted(errors, "error"),
        counted(tried, if tables::is_external(campaign) { "disturbed run" } else { "flip" })
    );
    if warnings > 0 {
        put!(
            lead,
            "<p class=caution><a href=#notes>! {} before you rely on this</a></p>",
            counted(warnings as u64, "note")
        );
    }
    let mut sections =
        vec![Section { id: "outcomes", title: "Outcomes", figure: count(tried), body: tables::outcomes(campaign) }];
    if !tables::is_external(campaign) {
        sections.push(Section {
            id: "hit",
            title: "Outcomes by flipped part",
            figure: String::new(),
            body: pictures::all(campaign),
        });
    }
    if let Some(body) = flip_every::all(campaign) {
        sections.push(Section { id: "every", title: "Exhaustive", figure: String::new(), body });
    }
    if let Some(body) = latency::table(campaign) {
        sections.push(Section { id: "soon", title: "Detection latency", figure: String::new(), body });
    }
    if let Some((variant, process)) = live::of(campaign) {
        sections.push(Section {
            id: "flips",
            title: "Flips",
            figure: count(tried),
            body: live::each(variant, process),
        });
    } else if undetected > 0 {
        sections.push(Section {
            id: "undetected",
            title: "Undetected flips",
            figure: count(undetected),
            body: stories(report),
        });
    }
    if campaign.protocol == "memcached" && !tables::is_external(campaign) {
        sections.push(Section {
            id: "paper",
            title: "Compared with the paper",
            figure: String::new(),
            body: tables::paper(campaign),
        });
    }
    sections.push(Section { id: "runs", title: "Programs", figure: String::new(), body: what_ran(campaign) });
    let figure = if warnings == 0 { String::new() } else { format!("! {warnings}") };
    sections.push(Section { id: "notes", title: "Before you rely on this", figure, body: notes::list(&notes) });
    page::render(&Page {
        run,
        kind: "flip",
        title: &run.title,
        lead,
        facts: page::run_facts(run),
        sections,
        data: serde_json::json!({ "spaces": [] }),
    })
}

fn stories(report: &FlipReport) -> String {
    let campaign = report.campaign;
    let mut out = String::from(
        "<p class=sum>Flips whose corrupt output a client would accept: the flipped part, its new value, and the first reply that differed.</p>",
    );
    let all: Vec<(&Variant, &Logged)> =
        campaign.variants.iter().flat_map(|v| v.stories.iter().map(move |s| (v, s))).collect();
    for (variant, story) in all.iter().take(STORIES) {
        let again = story.injection.as_ref().map(|_| {
            let name = if campaign.variants.len() > 1 { format!("{}:", variant.name) } else { String::new() };
            format!("faultloom flip replay {}:{name}{}", report.run.id.short(), story.id)
        });
        out.push_str(&card(variant, story, again, campaign.variants.len() > 1));
    }
    let total: u64 = campaign.variants.iter().map(|v| v.tally.undetected).sum();
    let shown = all.len().min(STORIES) as u64;
    if shown < total {
        put!(out, "<p class=note>{} more are in the run's log.</p>", count(total - shown));
    }
    out
}

pub(crate) fn card(variant: &Variant, story: &Logged, again: Option<String>, several: bool) -> String {
    let mut out = String::from("<article class=flip><h3>");
    match &story.injection {
        Some(i) => put!(
            out,
            "<span class=kind>{}</span> <code>{}</code> <small>bit {}</small>",
            i.kind,
            text(&i.instruction),
            i.bit
        ),
        None => put!(out, "Run {}", story.id),
    }
    if story.live.is_some() {
        put!(out, " <small>{}</small>", story.outcome_text());
    }
    if several {
        put!(out, " <small>{}</small>", text(&variant.name));
    }
    out.push_str("</h3><dl>");
    if let Some(i) = &story.injection {
        put!(
            out,
            "<div><dt>Where</dt><dd>{}",
            i.symbol.as_ref().map_or_else(String::new, |s| format!("<code>{}</code> ", text(s)))
        );
        if let Some(source) = &i.source {
            put!(out, "{} ", text(source));
        }
        let module = if i.module.is_empty() { "?" } else { &i.module };
        put!(
            out,
            "<span class=muted>{}+{:#x}, after {}</span></dd></div>",
            text(module),
            i.offset,
            counted(i.position, "instruction")
        );
        put!(out, "<div><dt>Flipped</dt><dd><code>{}</code></dd></div>", text(&story.effect.hit));
    }
    if let Some(d) = &story.deviation {
        put!(
            out,
            "<div><dt>First difference</dt><dd>message {} of {} on {}{}{}</dd></div><div><dt>Golden</dt><dd><code>{}</code></dd></div><div><dt>Output</dt><dd><code class=ko>{}</code></dd></div>",
            count(d.reply + 1),
            count(d.replies),
            text(&d.connection),
            latency::words(d.replies_since),
            if d.connections > 1 {
                format!(", the first of {} connections that differ", d.connections)
            } else {
                String::new()
            },
            text(&d.golden),
            text(&d.actual)
        );
    }
    put!(out, "<div><dt>End</dt><dd>{}</dd></div></dl>", text(&live::end(story)));
    if let Some(again) = again {
        put!(out, "<p class=again><code>{}</code></p>", text(&again));
    }
    out.push_str("</article>");
    out
}

fn what_ran(campaign: &Campaign) -> String {
    let mut out = String::from(
        "<div class=scroll><table><thead><tr><th>Program<th class=num>Instructions<th class=num>Distinct<th class=num>Messages<th class=num>Output<th>Controls equal<th class=num>Per second<th class=num>CPU per flip</tr></thead><tbody>",
    );
    for v in &campaign.variants {
        let tried = v.tally.tried().max(1) as f64;
        put!(
            out,
            "<tr><th>{}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{} B<td>{} of {}<td class=num>{}<td class=num>{}</tr>",
            text(&v.name),
            dash(v.instructions),
            dash(v.sites),
            count(v.replies),
            count(v.golden_bytes),
            count(v.controls.run - v.controls.deviating),
            count(v.controls.run),
            if v.seconds.wall > 0.0 { count((tried / v.seconds.wall) as u64) } else { "–".to_owned() },
            if v.seconds.cpu > 0.0 { duration((v.seconds.cpu / tried * 1e6) as u64) } else { "–".to_owned() },
        );
    }
    out.push_str("</tbody></table></div>");
    let types: Vec<String> =
        campaign.types.iter().map(|(kind, n)| format!("{kind} {}", count(u64::from(*n)))).collect();
    let bits = match campaign.bits {
        model::flip::BitPolicy::Full => "every bit of an operand",
        model::flip::BitPolicy::Low32 => "the lowest 32 bits of an operand",
    };
    if !tables::is_external(campaign) {
        put!(
            out,
            "<p class=note>Flips per type: {}; {bits}; seed {}; judged {}.</p>",
            types.join(", "),
            campaign.seed,
            if live::of(campaign).is_some() {
                "by the check".to_owned()
            } else {
                format!("as {}", text(&campaign.protocol))
            }
        );
    }
    for v in &campaign.variants {
        put!(out, "<p class=note>{}: <code>{}</code></p>", text(&v.name), text(&v.command.join(" ")));
    }
    out
}

fn dash(n: u64) -> String {
    if n == 0 { "–".to_owned() } else { count(n) }
}

/// What limits the meaning of the figures.
pub(crate) fn notes_of(campaign: &Campaign) -> Vec<Note> {
    let mut notes = Vec::new();
    let note = |notes: &mut Vec<Note>, warns: bool, n: u64, name: &str, words: &str| {
        if n > 0 {
            notes.push(Note { warns, words: format!("{name}: {} {words}", count(n)) });
        }
    };
    for v in &campaign.variants {
        note(
            &mut notes,
            true,
            v.controls.deviating,
            &v.name,
            "fault-free runs did not give the golden output, so the effects of flips cannot be separated from chance.",
        );
        note(&mut notes, true, v.misses, &v.name, "times the golden process was not at the planned position.");
        note(&mut notes, true, v.missing, &v.name, "planned runs are missing.");
        note(&mut notes, true, v.tally.unjudged, &v.name, "outputs could not be judged.");
        note(
            &mut notes,
            true,
            v.tally.inactive,
            &v.name,
            "flips could not be injected; they do not count as without effect.",
        );
        note(
            &mut notes,
            false,
            v.tally.corrupt_later,
            &v.name,
            "were detected first and sent wrong replies later, which a client that continues would accept.",
        );
        note(
            &mut notes,
            false,
            v.refused_calls,
            &v.name,
            "system calls of disturbed programs were refused by the sandbox.",
        );
        for remark in &v.remarks {
            notes.push(Note { warns: false, words: format!("{}: {remark}", v.name) });
        }
    }
    if live::of(campaign).is_some() {
        let words = "Only replies to the check were judged; other clients may have received wrong replies. A process that ended counts as detected otherwise.";
        notes.push(Note { warns: false, words: words.to_owned() });
        return notes;
    }
    notes.push(Note { warns: false, words: "Only a deviating output is an error; a crash after complete output is not. Shares are of the errors of a group and are not probabilities, because the frequency of such faults is unknown. Intervals are 95 % (Wilson); without an occurrence, the bound is one-sided.".to_owned() });
    notes
}
