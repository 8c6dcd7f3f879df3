//! The dynamic instruction stream of the golden run, as a sequence of blocks.

use crate::tracing::blocks::BlockRun;
use crate::tracing::code::{BlockId, Code, SiteId};
use model::flip::FlipType;
use std::collections::HashMap;

/// A block's number and, in the upper bits, properties of this execution of it.
#[derive(Clone, Copy)]
struct Entry(u32);

const OUTSIDE: u32 = 1 << 31;
const EMPTY_REPEAT: u32 = 1 << 30;

impl Entry {
    fn block(self) -> BlockId {
        self.0 & !(OUTSIDE | EMPTY_REPEAT)
    }

    /// Whether it ran outside the selected handlers or range.
    fn outside(self) -> bool {
        self.0 & OUTSIDE != 0
    }

    /// Whether its last instruction was a repeated one without a single iteration.
    fn empty_repeat(self) -> bool {
        self.0 & EMPTY_REPEAT != 0
    }
}

/// A position in a stream, found by scanning forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Number of an entry.
    pub entry: usize,
    /// The position at which it begins.
    pub begin: u64,
}

#[derive(Default)]
pub struct Stream {
    entries: Vec<Entry>,
    /// Iterations by entry, of repeated instructions with more than one.
    repeats: HashMap<u32, u64>,
    instructions: u64,
}

/// One instruction of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSite {
    pub position: u64,
    pub site: SiteId,
    /// Iterations of a repeated instruction; 1 for others.
    pub iterations: u64,
}

impl Stream {
    pub fn push(&mut self, ran: BlockRun, outside: bool) {
        let index = self.entries.len() as u32;
        let mut entry = ran.block | if outside { OUTSIDE } else { 0 };
        match ran.repeats {
            Some(0) => entry |= EMPTY_REPEAT,
            Some(1) | None => {}
            Some(n) => {
                self.repeats.insert(index, n);
            }
        }
        self.entries.push(Entry(entry));
        self.instructions += u64::from(ran.count);
    }

    /// Adds blocks that ran as a whole, within the selected handlers.
    pub fn extend(&mut self, code: &Code, ran: &[BlockId]) {
        self.entries.extend(ran.iter().map(|block| Entry(*block)));
        self.instructions += ran.iter().map(|block| code.block(*block).sites.len() as u64).sum::<u64>();
    }

    /// How many blocks ran.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Moves the cursor to the block that contains a position, or to the end.
    pub fn seek(&self, code: &Code, cursor: &mut Cursor, position: u64) {
        while let Some(entry) = self.entries.get(cursor.entry) {
            let end = cursor.begin + code.block(entry.block()).sites.len() as u64;
            if position < end {
                return;
            }
            *cursor = Cursor { entry: cursor.entry + 1, begin: end };
        }
    }

    /// The position behind the block at a cursor. None: the cursor is at the end.
    pub fn end_of(&self, code: &Code, cursor: Cursor) -> Option<u64> {
        let entry = self.entries.get(cursor.entry)?;
        Some(cursor.begin + code.block(entry.block()).sites.len() as u64)
    }

    /// The first of `ran`, from an entry on, that is another block. Blocks that were decoded again are the same if they
    /// have the same instructions.
    pub fn first_difference(&self, code: &Code, from: usize, ran: &[BlockId]) -> Option<usize> {
        let address = |block: BlockId| {
            let sites = &code.block(block).sites;
            (code.site(sites[0]).instruction.ip(), sites.len())
        };
        ran.iter().enumerate().position(|(index, block)| {
            let expected = self.entries.get(from + index).map(|entry| entry.block());
            expected.is_none_or(|expected| expected != *block && address(expected) != address(*block))
        })
    }

    /// The addresses of the instructions of a block that ran.
    pub fn instructions_of(&self, code: &Code, entry: usize) -> Vec<u64> {
        let block = self.entries.get(entry).map(|entry| entry.block());
        block.map_or_else(Vec::new, |block| {
            code.block(block).sites.iter().map(|site| code.site(*site).instruction.ip()).collect()
        })
    }

    /// The position at which a block that ran begins.
    pub fn position_of(&self, code: &Code, entry: usize) -> u64 {
        self.entries[..entry.min(self.len())].iter().map(|entry| code.block(entry.block()).sites.len() as u64).sum()
    }

    /// Excludes everything outside these positions, which must be boundaries of blocks.
    pub fn restrict(&mut self, code: &Code, positions: std::ops::Range<u64>) {
        let mut position = 0;
        for entry in &mut self.entries {
            if !positions.contains(&position) {
                entry.0 |= OUTSIDE;
            }
            position += code.block(entry.block()).sites.len() as u64;
        }
    }

    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Addresses in execution order, one per instruction.
    pub fn addresses<'a>(&'a self, code: &'a Code) -> impl Iterator<Item = u64> + 'a {
        self.entries
            .iter()
            .flat_map(|entry| code.block(entry.block()).sites.iter().map(|site| code.site(*site).instruction.ip()))
    }

    /// How many instructions are eligible for a type.
    pub fn eligible(&self, code: &Code, kind: FlipType) -> u64 {
        self.entries.iter().map(|entry| u64::from(counted(*entry, code, kind))).sum()
    }

    /// The eligible instructions with the given ranks, which must be ascending.
    pub fn eligible_sites(&self, code: &Code, kind: FlipType, ranks: &[u64]) -> Vec<StreamSite> {
        let mut sites = Vec::with_capacity(ranks.len());
        let (mut rank, mut position) = (0, 0);
        let mut remaining = ranks.iter().copied().peekable();
        for (index, entry) in self.entries.iter().enumerate() {
            let block = code.block(entry.block());
            let here = u64::from(counted(*entry, code, kind));
            while let Some(next) = remaining.next_if(|next| *next < rank + here) {
                let (offset, site) = nth(block.sites.as_slice(), *entry, code, kind, next - rank);
                let iterations = self.iterations(index, offset + 1 == block.sites.len());
                sites.push(StreamSite { position: position + offset as u64, site, iterations });
            }
            rank += here;
            position += block.sites.len() as u64;
        }
        sites
    }

    /// The instruction at a position.
    pub fn at(&self, code: &Code, position: u64) -> Option<StreamSite> {
        let mut begin = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let block = code.block(entry.block());
            let offset = (position - begin) as usize;
            if offset < block.sites.len() {
                let iterations = self.iterations(index, offset + 1 == block.sites.len());
                return Some(StreamSite { position, site: block.sites[offset], iterations });
            }
            begin += block.sites.len() as u64;
        }
        None
    }

    /// Iterations of the repeated instruction that ends a block; 1 for others.
    pub fn repeats(&self, entry: usize) -> u64 {
        self.iterations(entry, true)
    }

    /// Iterations of an instruction of a block; only the last one can be repeated.
    fn iterations(&self, entry: usize, last: bool) -> u64 {
        match (last, self.entries[entry].empty_repeat()) {
            (false, _) => 1,
            (true, true) => 0,
            (true, false) => self.repeats.get(&(entry as u32)).copied().unwrap_or(1),
        }
    }
}

/// Without an iteration, only flips that need none are eligible: see
/// [`crate::processor::instruction::Instruction::idle_operand`].
fn empty_repeat_counts(kind: FlipType) -> bool {
    matches!(kind, FlipType::Cf | FlipType::Rreg | FlipType::Text | FlipType::Asc)
}

fn counted(entry: Entry, code: &Code, kind: FlipType) -> u32 {
    if entry.outside() {
        return 0;
    }
    code.block(entry.block()).eligible(kind, !entry.empty_repeat() || empty_repeat_counts(kind))
}

/// The n-th eligible instruction of a block.
fn nth(sites: &[SiteId], entry: Entry, code: &Code, kind: FlipType, n: u64) -> (usize, SiteId) {
    let counts = |(index, site): &(usize, SiteId)| {
        let skipped = entry.empty_repeat() && index + 1 == sites.len() && !empty_repeat_counts(kind);
        !skipped && code.counts(*site, kind)
    };
    sites.iter().copied().enumerate().filter(counts).nth(n as usize).expect("the rank is below the count")
}
