//! Relative links in Markdown files point to files that exist.
//!
//! URLs are not checked, because that needs a network. Anchors are not checked, because they depend on the renderer.

use super::text_files;
use crate::shell::root;
use std::path::Path;

/// Fails if a relative link has no target in the working tree. The error lists all of them.
pub fn check() -> Result<String, String> {
    let (mut checked, mut broken) = (0, Vec::new());
    for (file, text) in text_files(&["*.md"])? {
        let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
        for (line, link) in relative_links(&text) {
            checked += 1;
            if !root().join(folder).join(link).exists() {
                broken.push(format!("{file}:{line}: no file {link}"));
            }
        }
    }
    if broken.is_empty() { Ok(format!("{checked} links")) } else { Err(broken.join("\n")) }
}

/// Line numbers and paths of `[text](path)`, without anchors. Code blocks and code spans are skipped.
fn relative_links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_code_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code_block = !is_code_block;
            continue;
        }
        if is_code_block {
            continue;
        }
        let mut rest = line;
        while let Some(open) = rest.find("](") {
            let after = &rest[open + 2..];
            let Some(close) = after.find(')') else { break };
            let path = after[..close].split('#').next().unwrap_or_default();
            let is_inside_code = rest[..open].matches('`').count() % 2 == 1;
            let is_relative = !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:");
            if is_relative && !is_inside_code {
                links.push((index + 1, path));
            }
            rest = &after[close..];
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::relative_links;

    #[test]
    fn only_relative_links_outside_code_count() {
        let text = "[a](b.md#c) [`d`](e/f.md) [g](https://h)\n[i](#j) `[k](l)`\n```\n[m](n)\n```\n[o](../p)\n";
        assert_eq!(relative_links(text), [(1, "b.md"), (1, "e/f.md"), (6, "../p")]);
    }
}
