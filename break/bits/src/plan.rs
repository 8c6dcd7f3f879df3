//! What is flipped: drawn uniformly from the eligible instructions, all of it before anything is flipped.

use crate::code::Code;
use crate::protocol::Draw;
use crate::random::Random;
use crate::stream::{Place, Stream};
use crate::strike::Blow;
use model::flip::{BitPolicy, FlipType};

/// A planned flip, still without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    pub id: u32,
    /// None: a control, which is forked and left alone.
    pub blow: Option<Blow>,
    pub position: u64,
    /// The address of the instruction that must be next there.
    pub ip: u64,
}

/// Numbers of its own for each flip, so that a larger campaign begins with the draws of a smaller one.
fn numbers(seed: u64, kind: FlipType, index: u32) -> Random {
    let mut random = Random(seed);
    for part in [kind as u64, u64::from(index)] {
        random = Random(random.number() ^ part.wrapping_mul(0xd134_2543_de82_ef95));
    }
    random
}

/// All flips of a draw and its controls, in the order in which the golden process reaches them. Ids number the flips by type and draw,
/// then the controls. A type for which nothing is eligible has no flips.
pub fn plan(stream: &Stream, code: &Code, draw: &Draw) -> Vec<Planned> {
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
    planned: &mut Vec<Planned>,
) {
    let eligible = stream.eligible(code, kind);
    if eligible == 0 {
        return;
    }
    let mut drawn: Vec<(u64, u32, Random)> = (0..count)
        .map(|index| {
            let mut random = numbers(draw.seed, kind, index);
            (random.below(eligible), index, random)
        })
        .collect();
    drawn.sort_by_key(|(rank, index, _)| (*rank, *index));
    let ranks: Vec<u64> = drawn.iter().map(|(rank, ..)| *rank).collect();
    for ((_, index, mut random), place) in drawn.into_iter().zip(stream.places(code, kind, &ranks)) {
        let blow = blow(code, place, kind, draw.bits, &mut random);
        let ip = code.site(place.site).instruction.ip();
        planned.push(Planned { id: first + index, blow: Some(blow), position: place.position, ip });
    }
}

fn blow(code: &Code, place: Place, kind: FlipType, bits: BitPolicy, random: &mut Random) -> Blow {
    let instruction = &code.site(place.site).instruction;
    let drawn = random.below(instruction.operands(kind) as u64) as usize;
    let operand = if place.iterations > 0 { drawn } else { instruction.idle_operand(kind).map_or(drawn, usize::from) };
    let bit = random.below(u64::from(bits.bits(instruction.width(kind, operand)))) as u32;
    let iteration = random.below(place.iterations.max(1));
    Blow { kind, operand, bit, iteration, seed: random.number() }
}

/// Evenly spread, the first at the very beginning.
fn controls(stream: &Stream, code: &Code, count: u32, first: u32, planned: &mut Vec<Planned>) {
    for index in 0..count {
        let position = u64::from(index) * stream.instructions() / u64::from(count);
        if let Some(place) = stream.at(code, position) {
            let ip = code.site(place.site).instruction.ip();
            planned.push(Planned { id: first + index, blow: None, position, ip });
        }
    }
}
