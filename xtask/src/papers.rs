//! Replications of the papers' measurements, one command each.

mod chart;
pub mod sei;
mod transtracer;

pub fn papers(name: &str) -> Result<(), String> {
    match name {
        "sei" => sei::repeat(),
        "transtracer" => transtracer::repeat(),
        _ => Err(format!("there is no paper '{name}'; papers: sei, transtracer")),
    }
}
