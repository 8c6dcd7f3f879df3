//! Reads traces from OTLP in JSON, as SDKs export it and as a collector's file exporter writes it.
//!
//! The file is read as a stream, because it may be larger than the memory. Its spans are kept in a reduced form until
//! its end, as a trace may be anywhere in it; then one trace after the other is built and passed on.

use crate::names::Names;
use crate::otlp_spans::SpanIn;
use crate::otlp_stream::{ObjectSeed, SPANS_MAX, Spans};
use crate::tree;
use model::Failure;
use model::trace::Trace;
use serde::de::DeserializeSeed;
use std::cell::Cell;
use std::io::{BufReader, Read};
use std::path::Path;
use std::rc::Rc;

/// The spans of a file.
pub struct SpanFile {
    spans: Vec<SpanIn>,
    names: Names,
}

/// Notices beyond this number are counted only; a large file may have one per trace.
const NOTICES_MAX: usize = 20;

impl SpanFile {
    /// `name`: the file's name in error messages.
    ///
    /// # Errors
    /// Request, if the file is not OTLP in JSON; environment, if it cannot be read.
    pub fn read(name: &Path, file: impl Read) -> Result<SpanFile, Failure> {
        let Spans { list, names, .. } = read(name, file)?;
        Ok(SpanFile { spans: list, names })
    }

    /// The number of spans.
    pub fn spans(&self) -> usize {
        self.spans.len()
    }

    /// Passes each trace to `take`, ordered by the time of their first span, with the number of spans that were passed
    /// before. A trace with several root spans becomes several traces. Returns messages about what is missing or was
    /// left out; none if the traces are complete.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn each_trace(
        &self,
        mut take: impl FnMut(Trace, usize) -> Result<(), Failure>,
    ) -> Result<Vec<String>, Failure> {
        let mut notices = Notices::default();
        let mut passed = 0;
        for group in by_trace(&self.spans, &mut notices) {
            for trace in tree::traces(&self.spans, &group, &self.names, &mut |notice| notices.add(notice)) {
                take(trace, passed)?;
            }
            passed += group.len();
        }
        Ok(notices.into_list())
    }
}

fn read(name: &Path, file: impl Read) -> Result<Spans, Failure> {
    let lines = Rc::new(Cell::new(1));
    let counted = CountedLines { from: BufReader::with_capacity(1 << 16, file), lines: lines.clone() };
    let mut parser = serde_json::Deserializer::from_reader(counted);
    let mut spans = Spans::default();
    let mut documents = 0;
    // at the end of the file, `end` succeeds; before that it has skipped white space
    while parser.end().is_err() {
        let line = lines.get();
        spans.invalid = None;
        if let Err(error) = ObjectSeed::document(&mut spans).deserialize(&mut parser) {
            return Err(refused(name, line, &spans, &error));
        }
        documents += 1;
    }
    if spans.list.is_empty() {
        let why = if documents == 0 { "the file is empty" } else { "it contains no span" };
        return Err(Failure::request(format!("{} contains no trace", name.display()))
            .why(why)
            .next("a file with OTLP in JSON, one object or one per line: {\"resourceSpans\":[…]}"));
    }
    Ok(spans)
}

/// `line`: where the document begins.
fn refused(name: &Path, line: usize, spans: &Spans, error: &serde_json::Error) -> Failure {
    let name = name.display();
    if error.is_io() {
        return Failure::environment(format!("{name} cannot be read: {error}"));
    }
    if spans.is_full {
        return Failure::request(format!("{name} has more than {SPANS_MAX} spans"))
            .next("split it; the spans of one trace must stay together");
    }
    if let (Some(invalid), true) = (&spans.invalid, error.is_data()) {
        return Failure::request(format!("{name}: line {line}: {}: {}", invalid.at, invalid.why))
            .next("OTLP in JSON is expected, as `faultloom export` and OpenTelemetry's collectors write it");
    }
    let words = error.to_string();
    let why = words.split(" at line ").next().unwrap_or_default();
    Failure::request(format!("{name}: line {} column {}: {why}", error.line(), error.column()))
        .why("it is not valid JSON, or truncated")
        .next("OTLP in JSON is expected: one object, or one per line")
}

/// Counts the lines of what the parser has read. It reads one byte at a time.
struct CountedLines<R> {
    from: R,
    lines: Rc<Cell<usize>>,
}

impl<R: Read> Read for CountedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.lines.set(self.lines.get() + buffer[..n].iter().filter(|byte| **byte == b'\n').count());
        Ok(n)
    }
}

#[derive(Default)]
struct Notices {
    list: Vec<String>,
    more: usize,
}

impl Notices {
    fn add(&mut self, notice: String) {
        if self.list.len() < NOTICES_MAX {
            self.list.push(notice);
        } else {
            self.more += 1;
        }
    }

    fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.list.push(format!("and {} more like these", self.more));
        }
        self.list
    }
}

/// The indices of the spans of each trace, in the order of the file. Traces are ordered by the time of the first span.
fn by_trace(spans: &[SpanIn], notices: &mut Notices) -> Vec<Vec<u32>> {
    let at = |index: &u32| &spans[*index as usize];
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    order.sort_unstable_by_key(|index| (at(index).trace, at(index).id, *index));
    order.dedup_by_key(|index| (at(&*index).trace, at(&*index).id));
    let duplicates = spans.len() - order.len();
    if duplicates > 0 {
        notices.add(format!("duplicate spans, of which the first is used: {duplicates}"));
    }
    let mut groups: Vec<Vec<u32>> = order.chunk_by(|a, b| at(a).trace == at(b).trace).map(<[u32]>::to_vec).collect();
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort_by_key(|group| (group.iter().map(|index| at(index).start_ns).min(), at(&group[0]).trace));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comment on `SpanIn` and the limit's memory rely on it.
    #[test]
    fn a_span_in_memory_is_about_a_hundred_bytes() {
        assert!(size_of::<SpanIn>() <= 112, "{}", size_of::<SpanIn>());
    }

    #[test]
    fn many_notices_are_counted() {
        let mut notices = Notices::default();
        (0..25).for_each(|n| notices.add(n.to_string()));
        let list = notices.into_list();
        assert_eq!((list.len(), list[20].as_str()), (21, "and 5 more like these"));
    }
}
