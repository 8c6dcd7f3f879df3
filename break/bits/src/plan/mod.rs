//! Plans a campaign: draws flips uniformly from the eligible instructions, before anything is flipped.

pub mod sites;
pub mod stream;

use crate::engine_messages::Draw;
use crate::inject::Fault;
use crate::plan::stream::{Stream, StreamSite};
use crate::tracing::code::Code;
use model::flip::{BitPolicy, FlipType};
use model::random::Random;

/// A flip or control that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFlip {
    pub id: u32,
    /// None: a control, which is forked and not disturbed.
    pub fault: Option<Fault>,
    pub position: u64,
    /// The address of the instruction that must be next at this position.
    pub ip: u64,
}

/// A separate random stream per flip, so that a larger campaign begins with the draws of a smaller one.
fn stream_for(seed: u64, kind: FlipType, index: u32) -> Random {
    let mut random = Random(seed);
    for part in [kind as u64, u64::from(index)] {
        random = Random(random.number() ^ part.wrapping_mul(0xd134_2543_de82_ef95));
    }
    random
}

/// All flips of a draw and its controls, in the order in which the golden process reaches them. Ids number the flips by
/// type and draw, then the controls. A type without eligible instructions has no flips.
pub fn plan(stream: &Stream, code: &Code, draw: &Draw) -> Vec<PlannedFlip> {
    let mut planned = Vec::new();
    let mut first = 0;
    for (kind, count) in &draw.types {
        flips(stream, code, draw, *kind, *count, first, &mut planned);
        first += count;
    }
    controls(stream, code, draw.controls, first, &mut planned);
    planned.sort_by_key(|planned| (planned.position, planned.id));
    planned
}

fn flips(
    stream: &Stream,
    code: &Code,
    draw: &Draw,
    kind: FlipType,
    count: u32,
    first: u32,
    planned: &mut Vec<PlannedFlip>,
) {
    let eligible = stream.eligible(code, kind);
    if eligible == 0 {
        return;
    }
    let mut drawn: Vec<(u64, u32, Random)> = (0..count)
        .map(|index| {
            let mut random = stream_for(draw.seed, kind, index);
            (random.below(eligible), index, random)
        })
        .collect();
    drawn.sort_by_key(|(rank, index, _)| (*rank, *index));
    let ranks: Vec<u64> = drawn.iter().map(|(rank, ..)| *rank).collect();
    for ((_, index, mut random), site) in drawn.into_iter().zip(stream.eligible_sites(code, kind, &ranks)) {
        let fault = draw_fault(code, site, kind, draw.bits, &mut random);
        let ip = code.site(site.site).instruction.ip();
        planned.push(PlannedFlip { id: first + index, fault: Some(fault), position: site.position, ip });
    }
}

fn draw_fault(code: &Code, site: StreamSite, kind: FlipType, bits: BitPolicy, random: &mut Random) -> Fault {
    let instruction = &code.site(site.site).instruction;
    let drawn = random.below(instruction.operands(kind) as u64) as usize;
    let operand = if site.iterations > 0 { drawn } else { instruction.idle_operand(kind).map_or(drawn, usize::from) };
    let bit = random.below(u64::from(bits.bits(instruction.width(kind, operand)))) as u32;
    let iteration = random.below(site.iterations.max(1));
    Fault { kind, operand, bit, iteration, seed: random.number() }
}

/// Controls are evenly spread, the first at the program's entry.
fn controls(stream: &Stream, code: &Code, count: u32, first: u32, planned: &mut Vec<PlannedFlip>) {
    for index in 0..count {
        let position = u64::from(index) * stream.instructions() / u64::from(count);
        if let Some(site) = stream.at(code, position) {
            let ip = code.site(site.site).instruction.ip();
            planned.push(PlannedFlip { id: first + index, fault: None, position, ip });
        }
    }
}
