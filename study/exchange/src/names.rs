//! Names of services and spans, each stored once: a file of a million spans has few of them.

use std::collections::HashMap;
use std::sync::Arc;

/// The index of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(u32);

#[derive(Default)]
pub(crate) struct Names {
    list: Vec<Arc<str>>,
    index: HashMap<Arc<str>, u32>,
}

impl Names {
    /// At most three names per span are stored, so the index fits.
    pub fn add(&mut self, text: &str) -> Name {
        if let Some(at) = self.index.get(text) {
            return Name(*at);
        }
        let (text, at): (Arc<str>, u32) = (text.into(), self.list.len() as u32);
        self.list.push(text.clone());
        self.index.insert(text, at);
        Name(at)
    }

    pub fn text(&self, name: Name) -> &str {
        &self.list[name.0 as usize]
    }
}
