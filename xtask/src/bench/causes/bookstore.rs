//! The weaknesses of the bookstore, page by page.

use super::expected::{Comparison, Finding};
use super::{Size, read_pages, sweep, tool};
use crate::setup;
use crate::shell::{quiet, root};

const TARGET: &str = "lab/bookstore/target.yaml";
const ENTRY: &str = "http://127.0.0.1:9300";

pub fn measure(_size: &Size) -> Result<Comparison, String> {
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    setup::build_bookstore()?;
    let pages = read_pages("lab/bookstore/expected.json")?;
    let home = root().join("out/bench/causes/bookstore");
    let _ = std::fs::remove_dir_all(&home);
    quiet(tool(TARGET, &home).args(["up", "--detach"]))?;
    let mut compared = Comparison::default();
    let swept = pages.iter().try_for_each(|page| {
        let expected: Vec<&Finding> = page.findings.iter().collect();
        sweep(tool(TARGET, &home), page, ENTRY, &format!("bookstore {}", page.name), &expected, &mut compared)
    });
    quiet(tool(TARGET, &home).arg("down"))?;
    swept.map(|()| compared)
}
