//! Writes `spec/vectors` from the reference implementation: `wire-vectors DIR`. The diff is reviewed like code.

mod book;
mod bridges;
mod carriers;
mod envelopes;
mod faults;
mod histories;
mod hooks;
mod joins;
mod names;
mod otlp;
mod refused;
mod scopes;
mod steps;
mod streams;

use std::path::PathBuf;

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("usage: wire-vectors VECTOR-DIR"));
    for group in ["good", "bad"] {
        let folder = dir.join(group);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the vector folder is writable");
    }
    let book = book::Book { dir };
    for write in [
        envelopes::write,
        refused::write,
        bridges::write,
        scopes::write,
        faults::write,
        hooks::write,
        streams::write,
        joins::write,
        histories::write,
        otlp::write,
        carriers::write,
        names::write,
    ] {
        write(&book);
    }
}
