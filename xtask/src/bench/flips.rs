//! `make bench-flips`: the speed of a campaign of bit flips, where its time is spent, and whether its optimizations
//! change results.
//!
//! A campaign has a fixed cost (the undisturbed runs, stepping through the program) and a cost per injection. Each
//! round runs a small and a larger campaign; their difference gives the cost of an injection. Times are of the whole
//! command, report included.

mod agreement;
mod known;
mod targets;

use super::statistics::Interval;
use super::{Goal, finish};
use crate::setup::{self, JQ, LUA, MEMCACHED, PYTHON, REDIS};
use agreement::Agreement;
use model::campaign::{Seconds, Variant};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use targets::{Target, Tool};

const SEED: u64 = 20_150_504;
/// SEI §7.1: three variants of memcached, 8,000 injections of each of seven types.
const VARIANTS: f64 = 3.0;
const INJECTIONS: f64 = 168_000.0;
const TYPES: u32 = 7;

/// The sizes of the campaigns.
struct Sizes {
    rounds: u64,
    /// Lines of the small program's input, and commands for memcached.
    lines: u32,
    commands: u32,
    /// Injections per type.
    small: u32,
    large: u32,
    /// Of well-known programs, which take longer.
    few: u32,
    more: u32,
    compared: u32,
    replayed: u32,
}

pub fn bench() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    let sizes = if quick {
        Sizes { rounds: 1, lines: 60, commands: 100, small: 5, large: 20, few: 1, more: 2, compared: 10, replayed: 7 }
    } else {
        Sizes {
            rounds: 5,
            lines: 400,
            commands: 1_200,
            small: 40,
            large: 340,
            few: 5,
            more: 25,
            compared: 100,
            replayed: 70,
        }
    };
    setup::packages(&[&MEMCACHED, &LUA, &PYTHON, &JQ, &REDIS])?;
    crate::cargo::build(&["--package", "faultloom", "--package", "sei-inputs"])?;
    let tool = Tool::new()?;
    let targets = [Target::sums(&tool, sizes.lines)?, Target::memcached(&tool, sizes.commands)?];
    let mut measured: BTreeMap<&str, Vec<Round>> = BTreeMap::new();
    for round in 0..sizes.rounds {
        for target in &targets {
            let sample = measure(&tool, target, &sizes, SEED + round)?;
            println!(
                " round {} of {}: {:<10} {:>5.0} injections/s, {:.2} ms of CPU each",
                round + 1,
                sizes.rounds,
                target.name,
                1.0 / sample.each_s,
                1e3 * sample.cpu_each_s
            );
            measured.entry(target.name).or_default().push(sample);
        }
    }
    let known = known::measure(&tool, &sizes)?;
    let replay = known::replay(&tool, &targets[1], &sizes)?;
    println!(" replay of one flip in memcached: {:.1} s", replay.median);
    let agreement = agreement::check(&tool, &targets[0], sizes.compared, sizes.replayed)?;
    let figures: BTreeMap<&str, Value> = measured.iter().map(|(name, rounds)| (*name, figures(rounds))).collect();
    let minutes = Interval::of(&measured["memcached"].iter().map(Round::minutes).collect::<Vec<f64>>());
    let deviating = measured.values().flatten().map(|round| round.deviating).sum::<u64>()
        + known.values().map(|known| known.deviating).sum::<u64>();
    table(&measured, minutes, &agreement);
    let slowest = known.values().map(|known| known.first_flip_s.median).fold(0.0, f64::max);
    let mut goals = goals(minutes, &agreement, deviating + agreement.deviating);
    goals.push(Goal::at_most("first_flip_s", slowest, 20.0));
    goals.push(Goal::at_most("replay_s", replay.median, 5.0));
    let all = json!({
        "targets": figures, "minutes_for_168000": minutes, "agreement": agreement, "rounds": sizes.rounds,
        "known_programs": known, "replay_s": replay,
        "injections_per_type": {"small": sizes.small, "large": sizes.large},
    });
    finish(if quick { "quick-flips" } else { "flips" }, SEED, &goals, all)
}

fn goals(minutes: Interval, agreement: &Agreement, deviating: u64) -> Vec<Goal> {
    vec![
        Goal::at_most("minutes_for_168000", minutes.median, 15.0),
        Goal::equals("step_block_differences", agreement.step_block as f64, 0.0),
        Goal::equals("fork_fresh_differences", agreement.fork_fresh as f64, 0.0),
        Goal::equals("control_differences", deviating as f64, 0.0),
    ]
}

/// A small and a larger campaign with the same seed.
struct Round {
    small_s: f64,
    small: f64,
    each_s: f64,
    cpu_each_s: f64,
    /// Of the larger campaign.
    seconds: Seconds,
    instructions: u64,
    deviating: u64,
}

impl Round {
    /// The time of the paper's campaigns: the fixed cost per variant, plus the cost of all injections.
    fn minutes(&self) -> f64 {
        (VARIANTS * self.small_s + (INJECTIONS - VARIANTS * self.small) * self.each_s) / 60.0
    }
}

fn measure(tool: &Tool, target: &Target, sizes: &Sizes, seed: u64) -> Result<Round, String> {
    let (small_s, small) = tool.campaign(target, sizes.small, seed, &[])?;
    let (large_s, large) = tool.campaign(target, sizes.large, seed, &[])?;
    let more = f64::from(TYPES * (sizes.large - sizes.small));
    Ok(Round {
        small_s,
        small: f64::from(TYPES * sizes.small),
        each_s: (large_s - small_s) / more,
        cpu_each_s: (large.seconds.cpu - small.seconds.cpu) / more,
        seconds: large.seconds,
        instructions: large.instructions,
        deviating: deviating(&small) + deviating(&large),
    })
}

/// Controls that are not golden or are missing, and flips that were not at their position.
fn deviating(variant: &Variant) -> u64 {
    let controls = &variant.controls;
    controls.deviating + controls.planned - controls.run + variant.misses
}

/// Shares of the engine's time in the larger campaigns. Forks run while the golden process is stepped, so their CPU
/// time overlaps.
fn parts(rounds: &[Round]) -> [(&'static str, Interval); 6] {
    let of = |part: fn(&Seconds) -> f64| {
        let share = |round: &Round| part(&round.seconds) / (round.seconds.profile + round.seconds.wall);
        Interval::of(&rounds.iter().map(share).collect::<Vec<f64>>())
    };
    [
        ("profile", of(|s| s.profile)),
        ("step", of(|s| s.step)),
        ("fork", of(|s| s.fork)),
        ("judge", of(|s| s.judge)),
        ("rest", of(|s| s.wall - s.step - s.fork - s.judge)),
        ("run_cpu", of(|s| s.run)),
    ]
}

fn figures(rounds: &[Round]) -> Value {
    let of = |figure: fn(&Round) -> f64| Interval::of(&rounds.iter().map(figure).collect::<Vec<f64>>());
    let shares: BTreeMap<&str, Interval> = parts(rounds).into_iter().collect();
    json!({
        "instructions": rounds.first().map(|r| r.instructions), "injections_per_s": of(|r| 1.0 / r.each_s),
        "cpu_ms_per_injection": of(|r| 1e3 * r.cpu_each_s), "seconds_of_small_campaign": of(|r| r.small_s), "share_of_time": shares,
    })
}

fn table(measured: &BTreeMap<&str, Vec<Round>>, minutes: Interval, agreement: &Agreement) {
    let interval =
        |i: Interval, digits: usize| format!("{:.digits$} [{:.digits$}, {:.digits$}]", i.median, i.low, i.high);
    for (name, rounds) in measured {
        let of = |figure: fn(&Round) -> f64| Interval::of(&rounds.iter().map(figure).collect::<Vec<f64>>());
        println!(
            "\n{name}: {} instructions\n  injections/s {:>26}\n  CPU, ms each {:>26}",
            rounds.first().map_or(0, |r| r.instructions),
            interval(of(|r| 1.0 / r.each_s), 0),
            interval(of(|r| 1e3 * r.cpu_each_s), 2)
        );
        println!("  where the time of the larger campaign goes, % of the engine's:");
        for (part, share) in parts(rounds) {
            println!(
                "    {part:<10} {:>26}",
                interval(
                    Interval { low: 100.0 * share.low, median: 100.0 * share.median, high: 100.0 * share.high },
                    1
                )
            );
        }
    }
    println!("\nthe paper's 168,000 executions: {} minutes", interval(minutes, 1));
    println!(
        "{} outcomes by blocks and by single steps, {} different; {} forks again in a fresh process, {} different",
        agreement.compared, agreement.step_block, agreement.replayed, agreement.fork_fresh
    );
}
