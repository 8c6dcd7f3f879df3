//! Loads the BPF programs and provides access to their tables.

use super::kernel::{self, ProgramStatistics};
use super::layout::{Control, Counter, Tally};
use aya::maps::{Array, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Iter};
use aya::{Btf, Ebpf, EbpfLoader};
use model::Failure;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

/// Built from `bpf/sockets.bpf.c`; `make check` rebuilds it and compares.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/sockets.bpf.o");

/// In attach order: the second handles the events that the first missed.
const HOOKS: [&str; 2] = ["state_changed", "state_changed_2"];
const FILE_SCAN: &str = "scan_file";
const COMPARISON: &str = "compare_sockets";

pub struct Programs {
    ebpf: Ebpf,
    control: Array<MapData, Control>,
    counters: PerCpuArray<MapData, u64>,
    tally: Array<MapData, Tally>,
    /// The hooks are detached on drop.
    _attached: Vec<BtfTracePointLink>,
}

impl Programs {
    /// Loads and attaches all programs. The flow table of one interval holds `flow_entries` keys.
    pub fn load(flow_entries: u32) -> Result<Programs, Failure> {
        let btf = Btf::from_sys_fs().map_err(|e| failed("cannot read the kernel's types (BTF)", &e))?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .map_max_entries("flows_even", flow_entries)
            .map_max_entries("flows_odd", flow_entries)
            .load(OBJECT)
            .map_err(|e| failed("cannot create the tables in the kernel", &e))?;
        let mut programs = Programs {
            control: table(&mut ebpf, "control")?,
            counters: table(&mut ebpf, "counters")?,
            tally: table(&mut ebpf, "tally")?,
            ebpf,
            _attached: Vec::new(),
        };
        programs.set_control(Control { wake_at: flow_entries / 2, scan: 1, ..Control::default() })?;
        let scan: &mut Iter = programs.program(FILE_SCAN)?;
        scan.load("task_file", &btf).map_err(|e| failed("cannot load the file scan", &e))?;
        let comparison: &mut Iter = programs.program(COMPARISON)?;
        comparison.load("bpf_sk_storage_map", &btf).map_err(|e| failed("cannot load the comparison", &e))?;
        for name in HOOKS {
            let hook: &mut BtfTracePoint = programs.program(name)?;
            let attached = hook
                .load("inet_sock_set_state", &btf)
                .and_then(|()| hook.attach())
                .and_then(|id| hook.take_link(id))
                .map_err(|e| failed("cannot attach the hook on TCP states", &e))?;
            programs._attached.push(attached);
        }
        Ok(programs)
    }

    fn program<'a, P>(&'a mut self, name: &str) -> Result<&'a mut P, Failure>
    where
        &'a mut P: TryFrom<&'a mut aya::programs::Program>,
    {
        let program = self.ebpf.program_mut(name).and_then(|program| program.try_into().ok());
        program.ok_or_else(|| Failure::new(model::Family::Bug, format!("no program {name} in the BPF object")))
    }

    /// Scans every open file once. Returns the records that the program writes.
    pub fn scan_files(&mut self) -> Result<Vec<u8>, Failure> {
        let scan: &mut Iter = self.program(FILE_SCAN)?;
        let mut file = scan
            .attach()
            .and_then(|id| scan.take_link(id))
            .map_err(|e| failed("cannot start the file scan", &e))?
            .into_file()
            .map_err(|e| failed("cannot start the file scan", &e))?;
        let mut written = Vec::new();
        file.read_to_end(&mut written).map_err(|e| failed("the file scan failed", &e))?;
        Ok(written)
    }

    /// Visits every socket that has state once and marks whether it is open.
    pub fn compare_sockets(&self) -> Result<(), Failure> {
        let refused = |e: std::io::Error| failed("the comparison with the kernel's sockets failed", &e);
        let program = self.ebpf.program(COMPARISON).and_then(|program| program.fd().ok());
        let program = program.ok_or_else(|| Failure::new(model::Family::Bug, "the comparison is not loaded"))?;
        kernel::visit_entries(program.as_fd(), self.map("sockets")?).map(drop).map_err(refused)
    }

    /// Detaches the hooks, so that no event is reported.
    #[cfg(test)]
    pub fn detach_hooks(&mut self) {
        self._attached.clear();
    }

    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>, Failure> {
        match self.ebpf.map(name) {
            Some(Map::HashMap(data) | Map::RingBuf(data) | Map::SkStorage(data)) => Ok(data.fd().as_fd()),
            _ => Err(Failure::new(model::Family::Bug, format!("no table {name} in the BPF object"))),
        }
    }

    pub fn take_wake(&mut self) -> Result<RingBuf<MapData>, Failure> {
        table(&mut self.ebpf, "wake")
    }

    pub fn set_control(&mut self, control: Control) -> Result<(), Failure> {
        self.control.set(0, control, 0).map_err(|e| failed("cannot write a table", &e))
    }

    pub fn tally(&self) -> Result<Tally, Failure> {
        self.tally.get(&0, 0).map_err(|e| failed("cannot read a table", &e))
    }

    /// Sum over all processors. A counter may go up on one processor and down on another.
    pub fn counter(&self, which: Counter) -> Result<u64, Failure> {
        let values = self.counters.get(&(which as u32), 0).map_err(|e| failed("cannot read a table", &e))?;
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

    /// Upper bound of the number of events missed by both hooks.
    pub fn missed(&self) -> Result<u64, Failure> {
        let [first, second] = HOOKS.map(|name| self.statistics_of(name));
        Ok(first?.recursion_misses.min(second?.recursion_misses))
    }

    fn statistics_of(&self, name: &str) -> Result<ProgramStatistics, Failure> {
        let hook = self.ebpf.program(name).and_then(|program| program.fd().ok());
        let hook = hook.ok_or_else(|| Failure::new(model::Family::Bug, "the hook is not loaded"))?;
        kernel::statistics(hook.as_fd()).map_err(|e| failed("cannot read the statistics of the hook", &e))
    }
}

fn table<T: TryFrom<Map>>(ebpf: &mut Ebpf, name: &str) -> Result<T, Failure> {
    let map = ebpf.take_map(name).and_then(|map| map.try_into().ok());
    map.ok_or_else(|| Failure::new(model::Family::Bug, format!("no table {name} in the BPF object")))
}

/// Includes the sources of aya's errors, which hold the essential part.
pub fn failed(what: &str, error: &dyn std::error::Error) -> Failure {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        why = format!("{why}: {error}");
        source = error.source();
    }
    let failure = Failure::environment(format!("eBPF: {what}")).why(why);
    if rustix::process::geteuid().is_root() {
        return failure.next("use --mode polling if the host or the container does not permit eBPF");
    }
    failure.next("run as root or with CAP_BPF and CAP_PERFMON; without them the agent polls instead")
}
