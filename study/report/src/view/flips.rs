//! The view of a campaign of bit flips: outcomes by what was flipped, each with its count, and the undetected flips.

use super::{Audience, Content, Head, RunView};
use crate::{FlipReport, flips};
use model::campaign::{Deviation, Logged, Row, Share, Slice, Tally, Variant};
use schemars::JsonSchema;
use serde::Serialize;

/// Counts of outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TallyView {
    pub no_effect: u64,
    /// Corrupt output that a client would accept.
    pub undetected: u64,
    pub detected_by_hardening: u64,
    /// Crash, hang or error.
    pub detected_otherwise: u64,
    /// Nothing could be flipped.
    pub not_flipped: u64,
    pub not_judged: u64,
}

impl TallyView {
    fn of(tally: &Tally) -> TallyView {
        TallyView {
            no_effect: tally.none,
            undetected: tally.undetected,
            detected_by_hardening: tally.hardening,
            detected_otherwise: tally.otherwise,
            not_flipped: tally.inactive,
            not_judged: tally.unjudged,
        }
    }
}

/// A share of the errors from 0 to 1, with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ShareView {
    pub share: f64,
    pub low: f64,
    pub high: f64,
}

fn share(share: &Option<Share>) -> Option<ShareView> {
    share.as_ref().map(|share| ShareView { share: share.share, low: share.low, high: share.high })
}

/// A group of flips, or a type within the group above it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlipRow {
    pub name: String,
    /// What the name stands for.
    pub about: String,
    pub is_within: bool,
    pub tally: TallyView,
    /// None without an error.
    pub undetected: Option<ShareView>,
    pub detected_by_hardening: Option<ShareView>,
    pub detected_otherwise: Option<ShareView>,
}

/// Outcomes by a property of the flipped part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlipSlice {
    pub group: String,
    pub key: String,
    pub tally: TallyView,
}

/// The first wrong output of a flip, as text with escapes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WrongOutput {
    pub connection: String,
    /// Index of the message, from 0, and the number of messages on that connection.
    pub reply: u64,
    pub replies: u64,
    /// The first byte of it that differs.
    pub byte: u64,
    pub expected: String,
    pub actual: String,
    pub connections: u32,
    /// Messages between the flip and this one; none if unknown.
    pub replies_since: Option<u64>,
}

/// One flip.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlipStory {
    pub id: u32,
    /// Index of the variant.
    pub variant: u32,
    pub outcome: String,
    pub kind: String,
    pub instruction: String,
    pub class: String,
    pub module: String,
    pub offset: u64,
    /// The function; empty if the module has no symbols.
    pub function: String,
    pub source: String,
    pub bit: Option<u16>,
    /// Instructions that ran before.
    pub position: Option<u64>,
    /// What was flipped: `rax: 0x1 → 0x3`.
    pub hit: String,
    pub end: String,
    pub wrong_output: Option<WrongOutput>,
    /// The commands that repeat it alone, and under gdb; empty if it cannot be repeated.
    pub replay: String,
    pub replay_gdb: String,
}

/// One program of the campaign.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VariantView {
    pub name: String,
    pub command: String,
    pub instructions: u64,
    pub distinct_instructions: u64,
    pub replies: u64,
    pub golden_bytes: u64,
    pub controls_run: u64,
    pub controls_deviating: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub tally: TallyView,
    pub rows: Vec<FlipRow>,
    pub by_class: Vec<FlipSlice>,
    pub by_function: Vec<FlipSlice>,
    pub by_bit: Vec<FlipSlice>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlipView {
    pub protocol: String,
    pub seed: u64,
    pub variants: Vec<VariantView>,
    /// Undetected flips; of a running process, the first flips.
    pub stories: Vec<FlipStory>,
    /// Undetected flips that are not in `stories`, because there are too many.
    pub stories_left_out: u64,
}

impl FlipView {
    pub fn of(report: &FlipReport, head: Head) -> RunView {
        if head.audience == Audience::Owner {
            return FlipView::complete(report, head);
        }
        FlipView::complete(&FlipReport { campaign: &crate::without_arguments(report.campaign), ..*report }, head)
    }

    fn complete(report: &FlipReport, head: Head) -> RunView {
        let campaign = report.campaign;
        let stories: Vec<FlipStory> = campaign
            .variants
            .iter()
            .enumerate()
            .flat_map(|(i, variant)| {
                let logged = variant.live.as_ref().map_or(&variant.stories, |live| &live.flips);
                logged.iter().map(move |flip| story(report, i, variant, flip))
            })
            .collect();
        let undetected: u64 = campaign.variants.iter().map(|variant| variant.tally.undetected).sum();
        let shown = stories.iter().filter(|story| story.outcome == "undetected").count() as u64;
        let content = Content::Flip(FlipView {
            protocol: campaign.protocol.clone(),
            seed: campaign.seed,
            variants: campaign.variants.iter().map(variant).collect(),
            stories,
            stories_left_out: undetected.saturating_sub(shown),
        });
        RunView::new(report.run, head, content, flips::notes_of(campaign))
    }
}

fn variant(variant: &Variant) -> VariantView {
    let slices = |list: &[Slice]| {
        let of = |slice: &Slice| FlipSlice {
            group: slice.group.as_str().to_owned(),
            key: slice.key.clone(),
            tally: TallyView::of(&slice.tally),
        };
        list.iter().map(of).collect()
    };
    VariantView {
        name: variant.name.clone(),
        command: variant.command.join(" "),
        instructions: variant.instructions,
        distinct_instructions: variant.sites,
        replies: variant.replies,
        golden_bytes: variant.golden_bytes,
        controls_run: variant.controls.run,
        controls_deviating: variant.controls.deviating,
        wall_s: variant.seconds.wall,
        cpu_s: variant.seconds.cpu,
        tally: TallyView::of(&variant.tally),
        rows: variant.rows.iter().map(row).collect(),
        by_class: slices(&variant.by_class),
        by_function: slices(&variant.by_function),
        by_bit: slices(&variant.by_bit),
    }
}

fn row(row: &Row) -> FlipRow {
    FlipRow {
        name: row.name.clone(),
        about: about(&row.name).to_owned(),
        is_within: row.within,
        tally: TallyView::of(&row.tally),
        undetected: share(&row.undetected),
        detected_by_hardening: share(&row.hardening),
        detected_otherwise: share(&row.otherwise),
    }
}

fn story(report: &FlipReport, index: usize, variant: &Variant, flip: &Logged) -> FlipStory {
    let injection = flip.injection.as_ref();
    let text = |of: fn(&model::flip::Injection) -> String| injection.map_or(String::new(), of);
    let several = report.campaign.variants.len() > 1;
    let name = if several { format!("{}:", variant.name) } else { String::new() };
    let replay = match (injection, &flip.live) {
        (Some(_), None) => format!("faultloom flip replay {}:{name}{}", report.run.id.short(), flip.id),
        _ => String::new(),
    };
    FlipStory {
        id: flip.id,
        variant: index as u32,
        outcome: flip.outcome_text().to_owned(),
        kind: text(|i| i.kind.to_string()),
        instruction: text(|i| i.instruction.clone()),
        class: text(|i| i.class.clone()),
        module: text(|i| i.module.clone()),
        offset: injection.map_or(0, |i| i.offset),
        function: text(|i| i.symbol.clone().unwrap_or_default()),
        source: text(|i| i.source.clone().unwrap_or_default()),
        bit: injection.map(|i| i.bit),
        position: injection.map(|i| i.position),
        hit: flip.effect.hit.clone(),
        end: crate::flip_live::end(flip),
        wrong_output: flip.deviation.as_ref().map(wrong_output),
        replay_gdb: if replay.is_empty() { String::new() } else { format!("{replay} --gdb") },
        replay,
    }
}

/// What a group or a type flips.
fn about(name: &str) -> &'static str {
    match name {
        "CF" => "the instruction pointer",
        "DF" => "what is written, or the address of an access",
        "RD" => "what is read",
        "WREG" => "a register, after it was written",
        "WVAL" => "memory, after it was written",
        "WADDR" => "the address of a write",
        "RADDR" => "the address of a read",
        "RREG" => "a register, before it is read",
        "RVAL" => "memory, before it is read",
        "TEXT" => "a bit of the instruction's code, for good",
        "ASC" => "several variables at once, to arbitrary values",
        _ => "",
    }
}

fn wrong_output(deviation: &Deviation) -> WrongOutput {
    WrongOutput {
        connection: deviation.connection.clone(),
        reply: deviation.reply,
        replies: deviation.replies,
        byte: deviation.byte,
        expected: deviation.golden.clone(),
        actual: deviation.actual.clone(),
        connections: deviation.connections,
        replies_since: deviation.replies_since,
    }
}
