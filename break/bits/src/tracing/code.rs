//! The program's code as it is reached: each instruction decoded once, grouped into blocks.

use crate::processor::control_flow::ControlFlow;
use crate::processor::instruction::Instruction;
use crate::tracing::translation::Translation;
use model::flip::FlipType;
use sandbox::tracee::Tracee;
use std::collections::HashMap;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;

/// An instruction's number within [`Code`].
pub type SiteId = u32;
/// A block's number within [`Code`].
pub type BlockId = u32;

/// The longest block, which bounds the work for code without branches.
const BLOCK_MAX: usize = 512;
/// The longest x86 instruction in bytes.
const LONGEST: usize = 15;

/// An instruction of the program.
pub struct Site {
    pub instruction: Rc<Instruction>,
    /// Whether the filter admits it.
    pub admitted: bool,
}

/// Instructions that always execute one after the other; only the last may continue elsewhere. Direct jumps and calls
/// do not end a block, because their target is fixed.
pub struct Block {
    pub sites: Vec<SiteId>,
    /// How many of the instructions are admitted and eligible, by type.
    eligible: [u32; FlipType::ALL.len()],
    /// The same without the last one.
    eligible_before_last: [u32; FlipType::ALL.len()],
}

impl Block {
    /// How many instructions count for a type: of all, or of all but the last.
    pub fn eligible(&self, kind: FlipType, whole: bool) -> u32 {
        if whole { self.eligible[kind as usize] } else { self.eligible_before_last[kind as usize] }
    }
}

/// Decides whether an instruction at an address may be hit.
pub trait Admission {
    fn admits(&mut self, ip: u64) -> bool;
}

pub struct Code {
    sites: Vec<Site>,
    site_at: HashMap<u64, SiteId>,
    blocks: Vec<Block>,
    block_at: HashMap<u64, BlockId>,
    /// Addresses at which blocks begin: the entries of handlers.
    pub boundaries: HashSet<u64>,
    /// Blocks that were translated to run without stops.
    pub translation: Translation,
    /// One instruction per block, for the single stepper that block stepping is compared with.
    single: bool,
}

impl Code {
    pub fn new(single: bool, boundaries: HashSet<u64>) -> Code {
        Code {
            sites: Vec::new(),
            site_at: HashMap::new(),
            blocks: Vec::new(),
            block_at: HashMap::new(),
            boundaries,
            translation: Translation::default(),
            single,
        }
    }

    pub fn site(&self, id: SiteId) -> &Site {
        &self.sites[id as usize]
    }

    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The instruction that was decoded last at an address.
    pub fn instruction_at(&self, ip: u64) -> Option<Rc<Instruction>> {
        self.site_at.get(&ip).map(|site| Rc::clone(&self.sites[*site as usize].instruction))
    }

    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    /// Discards instructions in this range, and blocks that contain any, because the code was replaced. Ids stay valid.
    pub fn forget(&mut self, range: std::ops::Range<u64>) {
        let before = self.site_at.len();
        self.site_at.retain(|ip, _| !range.contains(ip));
        if self.site_at.len() == before {
            return;
        }
        self.translation.clear();
        let sites = &self.sites;
        let blocks = &self.blocks;
        self.block_at.retain(|_, block| {
            let within = |site: &SiteId| range.contains(&sites[*site as usize].instruction.ip());
            !blocks[*block as usize].sites.iter().any(within)
        });
    }

    /// The block that begins at an address.
    pub fn block_from(&mut self, ip: u64, tracee: &Tracee, admission: &mut dyn Admission) -> io::Result<BlockId> {
        if let Some(block) = self.block_at.get(&ip) {
            return Ok(*block);
        }
        let mut sites = Vec::new();
        let mut included = HashSet::new();
        let mut at = ip;
        loop {
            let site = self.site_from(at, tracee, admission)?;
            sites.push(site);
            included.insert(at);
            let ended = &self.sites[site as usize].instruction;
            at = match ended.flow() {
                _ if self.single || sites.len() == BLOCK_MAX => break,
                ControlFlow::Next => ended.next_ip(),
                // backward: a thread's turn may end here
                ControlFlow::Jump(target) if target <= ended.ip() => break,
                ControlFlow::Jump(target) | ControlFlow::Call(target) => target,
                _ => break,
            };
            // a loop, the entry of a handler, or an unmapped page
            if included.contains(&at) || self.boundaries.contains(&at) || !readable(tracee, at) {
                break;
            }
            // a system call is a block of its own: the thread may have to wait before it
            let next = self.site_from(at, tracee, admission)?;
            if self.sites[next as usize].instruction.flow() == ControlFlow::Syscall {
                break;
            }
        }
        let id = self.blocks.len() as BlockId;
        self.blocks.push(self.counted(sites));
        self.block_at.insert(ip, id);
        Ok(id)
    }

    fn counted(&self, sites: Vec<SiteId>) -> Block {
        let mut eligible = [0; FlipType::ALL.len()];
        let mut eligible_before_last = eligible;
        for (index, site) in sites.iter().enumerate() {
            if index + 1 == sites.len() {
                eligible_before_last = eligible;
            }
            for kind in FlipType::ALL {
                eligible[kind as usize] += u32::from(self.counts(*site, kind));
            }
        }
        Block { sites, eligible, eligible_before_last }
    }

    /// Whether the instruction may be hit by a flip of this type.
    pub fn counts(&self, site: SiteId, kind: FlipType) -> bool {
        let site = &self.sites[site as usize];
        site.admitted && site.instruction.eligible(kind)
    }

    fn site_from(&mut self, ip: u64, tracee: &Tracee, admission: &mut dyn Admission) -> io::Result<SiteId> {
        if let Some(site) = self.site_at.get(&ip) {
            return Ok(*site);
        }
        let mut code = [0; LONGEST];
        let there = tracee.read_some(ip, &mut code);
        let instruction = Instruction::decode(ip, &code[..there])
            .ok_or_else(|| io::Error::other(format!("there is no instruction at {ip:#x}")))?;
        let id = self.sites.len() as SiteId;
        self.sites.push(Site { instruction: Rc::new(instruction), admitted: admission.admits(ip) });
        self.site_at.insert(ip, id);
        Ok(id)
    }
}

fn readable(tracee: &Tracee, ip: u64) -> bool {
    tracee.read_some(ip, &mut [0]) == 1
}
