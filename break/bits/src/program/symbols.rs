//! Symbols of an ELF file: functions by address, and source lines if it has debug information.

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, LittleEndian};
use object::{File, Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A larger file is not read.
const MAX_BYTES: u64 = 512 << 20;

type Slice = EndianArcSlice<LittleEndian>;

/// All addresses are those of the file, not of a process.
pub(crate) struct Symbols {
    /// By address.
    functions: Vec<Function>,
    segments: Vec<Segment>,
    lines: Option<Context<Slice>>,
}

struct Function {
    start: u64,
    end: u64,
    local: bool,
    name: Box<str>,
}

struct Segment {
    address: u64,
    offset: u64,
    length: u64,
}

impl Symbols {
    /// Includes those of its separate debug file, if installed. None: not a readable ELF file.
    pub fn of_file(path: &Path) -> Option<Symbols> {
        let bytes = read(path)?;
        let object = File::parse(&*bytes).ok()?;
        let debug = separate_debug_file(&object).and_then(|path| read(&path));
        let debug = debug.as_ref().and_then(|bytes| File::parse(&**bytes).ok());
        Some(Symbols::of(&object, debug.as_ref()))
    }

    pub fn of_image(bytes: &[u8]) -> Option<Symbols> {
        Some(Symbols::of(&File::parse(bytes).ok()?, None))
    }

    fn of(object: &File, debug: Option<&File>) -> Symbols {
        let mut functions: Vec<Function> = [Some(object), debug].into_iter().flatten().flat_map(functions).collect();
        // of several names at one address, prefer the longest function, then global symbols, then fewer underscores
        let rank =
            |function: &Function| (function.start, Reverse(function.end), function.local, underscores(&function.name));
        functions.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
        functions.dedup_by_key(|function| function.start);
        bound(&mut functions);
        let segments = object.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            Segment { address: segment.address(), offset, length }
        });
        Symbols { functions, segments: segments.collect(), lines: lines(debug.unwrap_or(object)) }
    }

    /// The address at which a byte of the file is loaded.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let within =
            |segment: &&Segment| offset.checked_sub(segment.offset).is_some_and(|distance| distance < segment.length);
        self.segments.iter().find(within).map(|segment| segment.address.wrapping_add(offset - segment.offset))
    }

    /// The function that contains an address.
    pub fn function(&self, address: u64) -> Option<&str> {
        let following = self.functions.partition_point(|function| function.start <= address);
        let nearest = self.functions[..following].last()?;
        (address < nearest.end).then_some(&*nearest.name)
    }

    /// The file offsets of all functions with a name.
    pub fn offsets(&self, name: &str) -> Vec<u64> {
        let named = self.functions.iter().filter(|function| &*function.name == name);
        named.filter_map(|function| self.offset(function.start)).collect()
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let within =
            |segment: &&Segment| address.checked_sub(segment.address).is_some_and(|distance| distance < segment.length);
        self.segments.iter().find(within).map(|segment| address - segment.address + segment.offset)
    }

    /// `file.c:123`.
    pub fn line(&self, address: u64) -> Option<String> {
        let location = self.lines.as_ref()?.find_location(address).ok()??;
        let file = Path::new(location.file?).file_name()?.to_str()?;
        Some(format!("{file}:{}", location.line?))
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    (std::fs::metadata(path).ok()?.len() <= MAX_BYTES).then(|| std::fs::read(path).ok())?
}

/// Where distributions install separate debug information.
fn separate_debug_file(object: &File) -> Option<PathBuf> {
    let id: String = object.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, rest) = id.split_at_checked(2)?;
    Some(PathBuf::from(format!("/usr/lib/debug/.build-id/{folder}/{rest}.debug")))
}

fn functions<'a>(object: &'a File<'a>) -> impl Iterator<Item = Function> + 'a {
    object.symbols().chain(object.dynamic_symbols()).filter_map(|symbol| {
        let start = symbol.address();
        let code = symbol.kind() == SymbolKind::Text && symbol.is_definition() && start != 0;
        let name = symbol.name().ok().filter(|name| code && !name.is_empty())?;
        Some(Function {
            start,
            end: start.saturating_add(symbol.size()),
            local: !symbol.is_global(),
            name: name.into(),
        })
    })
}

fn underscores(name: &str) -> usize {
    name.len() - name.trim_start_matches('_').len()
}

/// A function without a size, as from assembly, extends to the next one, by at most a page.
fn bound(functions: &mut [Function]) {
    for index in 0..functions.len() {
        let next = functions.get(index + 1).map_or(u64::MAX, |next| next.start);
        let function = &mut functions[index];
        if function.end == function.start {
            function.end = next.min(function.start.saturating_add(4096));
        }
    }
}

fn lines(object: &File) -> Option<Context<Slice>> {
    object.section_by_name(".debug_line")?;
    let section = |id: gimli::SectionId| -> Result<Slice, object::Error> {
        let data = object.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok(Slice::new(Arc::from(&*data.unwrap_or_default()), LittleEndian))
    };
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}
