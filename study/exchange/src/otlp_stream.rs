//! Reads documents of OTLP in JSON span by span, so that a file may be larger than the memory. Only the spans' reduced
//! forms are kept.
//!
//! ```text
//! {"resourceSpans": [{"resource": {…}, "scopeSpans": [{"scope": {…}, "spans": [{…}, …]}, …]}, …]}
//! ```
//!
//! The keys of an object may be in any order: the spans are read before their service is known, and completed then.

use crate::names::Names;
use crate::otlp_spans::{Invalid, SpanIn, service_name, span};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

/// More spans are refused. So many take up to about 900 MB (220 bytes each), and their names in addition.
pub const SPANS_MAX: usize = 4_000_000;

/// What has been read so far.
#[derive(Default)]
pub(crate) struct Spans {
    pub list: Vec<SpanIn>,
    pub names: Names,
    /// Why reading ended early. Set before a value is read, in case it has another type, and cleared if it does not.
    pub invalid: Option<Invalid>,
    /// There are more spans than [`SPANS_MAX`].
    pub is_full: bool,
}

impl Spans {
    /// Ends the reading with an error of the parser, whose text is not used.
    fn stop<E: Error>(&mut self, reason: Invalid) -> E {
        self.invalid = Some(reason);
        E::custom("invalid")
    }
}

/// An object of the document whose fields are read one after the other.
trait Object: Default {
    /// `at`: the path of the object, empty for the document.
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        spans: &mut Spans,
        at: &str,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error>;

    fn end(self, spans: &mut Spans, at: &str) -> Result<(), Invalid>;
}

#[derive(Default)]
pub(crate) struct Document {
    has_resources: bool,
}

impl Object for Document {
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        spans: &mut Spans,
        _at: &str,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if key != "resourceSpans" {
            return map.next_value::<IgnoredAny>().map(drop);
        }
        self.has_resources = true;
        map.next_value_seed(List::<Resource>::new(spans, "resourceSpans".to_owned()))
    }

    fn end(self, _spans: &mut Spans, _at: &str) -> Result<(), Invalid> {
        if self.has_resources { Ok(()) } else { Err(no_resources()) }
    }
}

fn no_resources() -> Invalid {
    Invalid { at: "the object".to_owned(), why: "resourceSpans is missing".to_owned() }
}

#[derive(Default)]
struct Resource {
    /// The index of its first span.
    first: Option<usize>,
    service: Option<String>,
}

impl Object for Resource {
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        spans: &mut Spans,
        at: &str,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match key {
            "resource" => {
                let resource: Value = map.next_value()?;
                self.service = Some(service_name(&resource, at).map_err(|invalid| spans.stop::<A::Error>(invalid))?);
                Ok(())
            }
            "scopeSpans" => {
                self.first.get_or_insert(spans.list.len());
                map.next_value_seed(List::<Scope>::new(spans, format!("{at}.scopeSpans")))
            }
            _ => map.next_value::<IgnoredAny>().map(drop),
        }
    }

    fn end(self, spans: &mut Spans, _at: &str) -> Result<(), Invalid> {
        // a resource without spans adds no name, so there are at most three names per span
        let Some(first) = self.first.filter(|first| *first < spans.list.len()) else { return Ok(()) };
        let service = spans.names.add(self.service.as_deref().unwrap_or("unknown"));
        spans.list[first..].iter_mut().for_each(|span| span.service = service);
        Ok(())
    }
}

#[derive(Default)]
struct Scope {
    first: Option<usize>,
    ours: bool,
}

impl Object for Scope {
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        spans: &mut Spans,
        at: &str,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match key {
            "scope" => {
                let scope: Value = map.next_value()?;
                self.ours = scope["name"] == "faultloom";
                Ok(())
            }
            "spans" => {
                self.first.get_or_insert(spans.list.len());
                map.next_value_seed(List::<OneSpan>::new(spans, format!("{at}.spans")))
            }
            _ => map.next_value::<IgnoredAny>().map(drop),
        }
    }

    fn end(self, spans: &mut Spans, _at: &str) -> Result<(), Invalid> {
        let first = self.first.unwrap_or(spans.list.len());
        spans.list[first..].iter_mut().for_each(|span| span.ours = self.ours);
        Ok(())
    }
}

/// Reads an object at a path.
pub(crate) struct ObjectSeed<'a, O> {
    spans: &'a mut Spans,
    at: String,
    object: PhantomData<O>,
}

impl<'a> ObjectSeed<'a, Document> {
    /// For a whole document.
    pub fn document(spans: &'a mut Spans) -> ObjectSeed<'a, Document> {
        ObjectSeed { spans, at: String::new(), object: PhantomData }
    }
}

impl<'de, O: Object> DeserializeSeed<'de> for ObjectSeed<'_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let expected = match self.at.as_str() {
            "" => no_resources(),
            at => Invalid { at: at.to_owned(), why: "it is not an object".to_owned() },
        };
        self.spans.invalid = Some(expected);
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: Object> Visitor<'de> for ObjectSeed<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.spans.invalid = None;
        let mut object = O::default();
        while let Some(key) = map.next_key::<String>()? {
            object.field(self.spans, &self.at, &key, &mut map)?;
        }
        object.end(self.spans, &self.at).map_err(|invalid| self.spans.stop(invalid))
    }
}

/// An element of a list.
trait Element {
    fn read<'de, D: Deserializer<'de>>(spans: &mut Spans, at: String, deserializer: D) -> Result<(), D::Error>;
}

impl<O: Object> Element for O {
    fn read<'de, D: Deserializer<'de>>(spans: &mut Spans, at: String, deserializer: D) -> Result<(), D::Error> {
        ObjectSeed::<O> { spans, at, object: PhantomData }.deserialize(deserializer)
    }
}

struct OneSpan;

impl Element for OneSpan {
    fn read<'de, D: Deserializer<'de>>(spans: &mut Spans, at: String, deserializer: D) -> Result<(), D::Error> {
        let value = Value::deserialize(deserializer)?;
        if spans.list.len() == SPANS_MAX {
            spans.is_full = true;
            return Err(D::Error::custom("too many spans"));
        }
        // replaced when its resource has been read
        let service = spans.names.add("unknown");
        let read = span(&value, &at, service, &mut spans.names).map_err(|invalid| spans.stop::<D::Error>(invalid))?;
        spans.list.push(read);
        Ok(())
    }
}

/// Reads a list; null is an empty one.
struct List<'a, E> {
    spans: &'a mut Spans,
    at: String,
    element: PhantomData<E>,
}

impl<'a, E> List<'a, E> {
    fn new(spans: &'a mut Spans, at: String) -> List<'a, E> {
        List { spans, at, element: PhantomData }
    }
}

impl<'de, E: Element> DeserializeSeed<'de> for List<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.spans.invalid = Some(Invalid { at: self.at.clone(), why: "it is not a list".to_owned() });
        deserializer.deserialize_any(self)
    }
}

impl<'de, E: Element> Visitor<'de> for List<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<R: Error>(self) -> Result<(), R> {
        self.spans.invalid = None;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.spans.invalid = None;
        for i in 0.. {
            let at = format!("{}[{i}]", self.at);
            let item = Item::<E> { spans: &mut *self.spans, at, element: PhantomData };
            if seq.next_element_seed(item)?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

struct Item<'a, E> {
    spans: &'a mut Spans,
    at: String,
    element: PhantomData<E>,
}

impl<'de, E: Element> DeserializeSeed<'de> for Item<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        E::read(self.spans, self.at, deserializer)
    }
}
