//! Loads the programs, and gives access to their tables by name.

use super::kernel::{self, ProgramStatistics};
use super::layout::{Control, Counter, Tally};
use aya::maps::{Array, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, Iter};
use aya::{Btf, Ebpf, EbpfLoader};
use model::Failure;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

/// Built from `bpf/sockets.bpf.c`; `make check` builds it again and compares.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/sockets.bpf.o");

/// In the order in which they must be attached: the second handles what the first has not.
const HOOKS: [&str; 2] = ["state_changed", "state_changed_2"];
const PASS: &str = "visit_file";

pub struct Programs {
    ebpf: Ebpf,
    control: Array<MapData, Control>,
    counters: PerCpuArray<MapData, u64>,
    tally: Array<MapData, Tally>,
}

impl Programs {
    /// Loads and attaches everything. Flows of one interval have room for `flow_entries` keys.
    pub fn load(flow_entries: u32) -> Result<Programs, Failure> {
        let btf = Btf::from_sys_fs().map_err(|e| failed("the kernel's types (BTF) cannot be read", &e))?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .map_max_entries("flows_even", flow_entries)
            .map_max_entries("flows_odd", flow_entries)
            .load(OBJECT)
            .map_err(|e| failed("the tables cannot be made in the kernel", &e))?;
        let mut programs = Programs {
            control: table(&mut ebpf, "control")?,
            counters: table(&mut ebpf, "counters")?,
            tally: table(&mut ebpf, "tally")?,
            ebpf,
        };
        programs.set_control(Control { wake_at: flow_entries / 2, pass: 1, ..Control::default() })?;
        let pass: &mut Iter = programs.program(PASS)?;
        pass.load("task_file", &btf).map_err(|e| failed("the pass over open files cannot be loaded", &e))?;
        for name in HOOKS {
            let hook: &mut BtfTracePoint = programs.program(name)?;
            hook.load("inet_sock_set_state", &btf)
                .and_then(|()| hook.attach())
                .map_err(|e| failed("the hook on TCP states cannot be attached", &e))?;
        }
        Ok(programs)
    }

    fn program<'a, P>(&'a mut self, name: &str) -> Result<&'a mut P, Failure>
    where
        &'a mut P: TryFrom<&'a mut aya::programs::Program>,
    {
        let program = self.ebpf.program_mut(name).and_then(|it| it.try_into().ok());
        program.ok_or_else(|| Failure::new(model::Family::Bug, format!("there is no program {name} in the object")))
    }

    /// Visits every open file once. What the programs write out is returned.
    pub fn pass(&mut self) -> Result<Vec<u8>, Failure> {
        let pass: &mut Iter = self.program(PASS)?;
        let mut file = pass
            .attach()
            .and_then(|id| pass.take_link(id))
            .map_err(|e| failed("the pass over open files cannot be started", &e))?
            .into_file()
            .map_err(|e| failed("the pass over open files cannot be started", &e))?;
        let mut written = Vec::new();
        file.read_to_end(&mut written).map_err(|e| failed("the pass over open files stopped", &e))?;
        Ok(written)
    }

    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>, Failure> {
        match self.ebpf.map(name) {
            Some(Map::HashMap(data) | Map::RingBuf(data)) => Ok(data.fd().as_fd()),
            _ => Err(Failure::new(model::Family::Bug, format!("there is no table {name} in the object"))),
        }
    }

    pub fn take_wake(&mut self) -> Result<RingBuf<MapData>, Failure> {
        table(&mut self.ebpf, "wake")
    }

    pub fn set_control(&mut self, control: Control) -> Result<(), Failure> {
        self.control.set(0, control, 0).map_err(|e| failed("a table cannot be written", &e))
    }

    pub fn tally(&self) -> Result<Tally, Failure> {
        self.tally.get(&0, 0).map_err(|e| failed("a table cannot be read", &e))
    }

    /// Sum over all processors; they count up on one and down on another.
    pub fn counter(&self, which: Counter) -> Result<u64, Failure> {
        let values = self.counters.get(&(which as u32), 0).map_err(|e| failed("a table cannot be read", &e))?;
        Ok(values.iter().fold(0, |sum, value| sum.wrapping_add(*value)))
    }

    /// Of both hooks together.
    pub fn statistics(&self) -> Result<ProgramStatistics, Failure> {
        let mut sum = ProgramStatistics::default();
        for name in HOOKS {
            sum.add(&self.statistics_of(name)?);
        }
        Ok(sum)
    }

    /// At most so many events were missed by both hooks.
    pub fn missed(&self) -> Result<u64, Failure> {
        let [first, second] = HOOKS.map(|name| self.statistics_of(name));
        Ok(first?.recursion_misses.min(second?.recursion_misses))
    }

    fn statistics_of(&self, name: &str) -> Result<ProgramStatistics, Failure> {
        let hook = self.ebpf.program(name).and_then(|program| program.fd().ok());
        let hook = hook.ok_or_else(|| Failure::new(model::Family::Bug, "the hook is not loaded"))?;
        kernel::statistics(hook.as_fd()).map_err(|e| failed("the kernel does not say how the hook fared", &e))
    }
}

fn table<T: TryFrom<Map>>(ebpf: &mut Ebpf, name: &str) -> Result<T, Failure> {
    let map = ebpf.take_map(name).and_then(|map| map.try_into().ok());
    map.ok_or_else(|| Failure::new(model::Family::Bug, format!("there is no table {name} in the object")))
}

/// The library's errors say the essential in their sources.
pub fn failed(what: &str, error: &dyn std::error::Error) -> Failure {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        why = format!("{why}: {error}");
        source = error.source();
    }
    Failure::environment(format!("eBPF: {what}"))
        .why(why)
        .next("run as root, or with CAP_BPF and CAP_PERFMON; without these the agent polls instead")
}
