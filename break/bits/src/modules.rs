//! Which module, function and source line an instruction of a process belongs to.
//!
//! Files are read once and answers are kept: a profile asks for hundreds of thousands of instructions.

use crate::mappings::{Mapping, Mappings};
use crate::symbols::Symbols;
use crate::tracee::Tracee;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Nothing larger is taken for the kernel's own library.
const MOST_VDSO_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// File name of the program or library, `[vdso]`, or empty.
    pub module: String,
    /// Offset in the file; the address where there is none.
    pub offset: u64,
    pub symbol: Option<String>,
    /// `file.c:123`.
    pub source: Option<String>,
}

/// The modules of one process, and of others that load the same at the same addresses.
pub struct Modules {
    mappings: Mappings,
    /// By the name of the mapping. None: nothing is known of it.
    symbols: HashMap<String, Option<Symbols>>,
}

impl Modules {
    pub fn of(tracee: &Tracee) -> io::Result<Modules> {
        let mut modules = Modules { mappings: Mappings::of(tracee.pid)?, symbols: HashMap::new() };
        let vdso = modules.mappings.0.iter().find(|mapping| mapping.name == "[vdso]");
        if let Some(mapping) = vdso.filter(|mapping| mapping.end - mapping.start <= MOST_VDSO_BYTES) {
            let mut image = vec![0; (mapping.end - mapping.start) as usize];
            let read = tracee.read(mapping.start, &mut image);
            modules.symbols.insert(mapping.name.clone(), read.ok().and_then(|()| Symbols::of_image(&image)));
        }
        Ok(modules)
    }

    /// Looks again at what is mapped: after the process has loaded something.
    pub fn refresh(&mut self, pid: libc::pid_t) -> io::Result<()> {
        self.mappings = Mappings::of(pid)?;
        Ok(())
    }

    /// Where the functions of that name begin, in all modules.
    pub fn addresses(&mut self, name: &str) -> Vec<u64> {
        let executable: Vec<Mapping> = self.mappings.0.iter().filter(|mapping| mapping.executable).cloned().collect();
        let mut found = Vec::new();
        for mapping in executable {
            let Some((symbols, _)) = self.symbols_at(mapping.start) else { continue };
            let within =
                |offset: &u64| (mapping.offset..mapping.offset + (mapping.end - mapping.start)).contains(offset);
            let offsets = symbols.offsets(name).into_iter().filter(within);
            found.extend(offsets.map(|offset| mapping.start + offset - mapping.offset));
        }
        found
    }

    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// File name of the module that an address is in; empty for memory without one, and where nothing is mapped.
    pub fn module(&self, address: u64) -> &str {
        self.mappings.at(address).map_or("", module)
    }

    /// The function that an address is in.
    pub fn symbol(&mut self, address: u64) -> Option<&str> {
        let (symbols, address) = self.symbols_at(address)?;
        symbols.function(address)
    }

    pub fn place(&mut self, address: u64) -> Place {
        let Some(mapping) = self.mappings.at(address) else {
            return Place { offset: address, ..Place::default() };
        };
        let module = module(mapping).to_owned();
        let offset = if module.is_empty() { address } else { address - mapping.start + mapping.offset };
        let found = self.symbols_at(address);
        let (symbol, source) = found.map_or((None, None), |(symbols, address)| {
            (symbols.function(address).map(str::to_owned), symbols.line(address))
        });
        Place { module, offset, symbol, source }
    }

    /// The symbols for an address, and the address they have for it.
    fn symbols_at(&mut self, address: u64) -> Option<(&Symbols, u64)> {
        let mapping = self.mappings.at(address)?;
        if !self.symbols.contains_key(&mapping.name) {
            let symbols = Path::new(&mapping.name).is_absolute().then(|| Symbols::of_file(Path::new(&mapping.name)));
            self.symbols.insert(mapping.name.clone(), symbols.flatten());
        }
        let symbols = self.symbols.get(&mapping.name)?.as_ref()?;
        Some((symbols, symbols.address(address - mapping.start + mapping.offset)?))
    }
}

fn module(mapping: &Mapping) -> &str {
    match mapping.name.rsplit_once('/') {
        Some((_, name)) => name,
        None if mapping.name == "[vdso]" => &mapping.name,
        None => "",
    }
}
