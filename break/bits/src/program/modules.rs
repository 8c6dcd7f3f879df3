//! Finds the module, function and source line of an instruction in a process.
//!
//! Files are read once and their symbols cached: a profile looks up hundreds of thousands of instructions.

use crate::program::mappings::{Mapping, Mappings};
use crate::program::symbols::Symbols;
use sandbox::tracee::Tracee;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// A larger mapping is not read as the vDSO.
const MAX_VDSO_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeLocation {
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
    /// By the name of the mapping. None: it has no symbols.
    symbols: HashMap<String, Option<Symbols>>,
}

impl Modules {
    pub fn of(tracee: &Tracee) -> io::Result<Modules> {
        let mut modules = Modules { mappings: Mappings::of(tracee.pid)?, symbols: HashMap::new() };
        let vdso = modules.mappings.0.iter().find(|mapping| mapping.name == "[vdso]");
        if let Some(mapping) = vdso.filter(|mapping| mapping.end - mapping.start <= MAX_VDSO_BYTES) {
            let mut image = vec![0; (mapping.end - mapping.start) as usize];
            let read = tracee.read(mapping.start, &mut image);
            modules.symbols.insert(mapping.name.clone(), read.ok().and_then(|()| Symbols::of_image(&image)));
        }
        Ok(modules)
    }

    /// Reads the mappings again, after the process has loaded something.
    pub fn refresh(&mut self, pid: libc::pid_t) -> io::Result<()> {
        self.mappings = Mappings::of(pid)?;
        Ok(())
    }

    /// The addresses of all functions with a name, in all modules.
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

    /// File name of the module that contains an address; empty for anonymous memory and where nothing is mapped.
    pub fn module(&self, address: u64) -> &str {
        self.mappings.at(address).map_or("", module)
    }

    /// The function that contains an address.
    pub fn symbol(&mut self, address: u64) -> Option<&str> {
        let (symbols, address) = self.symbols_at(address)?;
        symbols.function(address)
    }

    pub fn locate(&mut self, address: u64) -> CodeLocation {
        let Some(mapping) = self.mappings.at(address) else {
            return CodeLocation { offset: address, ..CodeLocation::default() };
        };
        let module = module(mapping).to_owned();
        let offset = if module.is_empty() { address } else { address - mapping.start + mapping.offset };
        let found = self.symbols_at(address);
        let (symbol, source) = found.map_or((None, None), |(symbols, address)| {
            (symbols.function(address).map(str::to_owned), symbols.line(address))
        });
        CodeLocation { module, offset, symbol, source }
    }

    /// The symbols for an address, and that address within the file.
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
