//! The papers' measurements, done again with what we have: one command each.

mod chart;
mod transtracer;

pub fn papers(name: &str) -> Result<(), String> {
    match name {
        "transtracer" => transtracer::repeat(),
        _ => Err(format!("there is no paper '{name}'; papers: transtracer")),
    }
}
