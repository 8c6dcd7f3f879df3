//! The frame of every page: masthead, sections with a table of contents, footer. The content security policy admits
//! the page's own script by its hash, and nothing from elsewhere.

use crate::escape::{json, put, text};
use crate::words;
use base64::Engine;
use model::{Run, Verdict};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(crate) struct Section {
    pub id: &'static str,
    pub title: &'static str,
    /// A short figure for the table of contents.
    pub figure: String,
    pub body: String,
}

pub(crate) struct Page<'a> {
    pub run: &'a Run,
    /// `sweep`, `recording`.
    pub kind: &'static str,
    pub title: &'a str,
    /// Markup: the verdict in one sentence, and links to the findings.
    pub lead: String,
    /// Name and value (markup) of figures under the lead.
    pub facts: Vec<(&'static str, String)>,
    pub sections: Vec<Section>,
    pub data: serde_json::Value,
}

pub(crate) fn verdict(verdict: Option<Verdict>) -> String {
    match verdict {
        Some(v) => format!("<span class=\"verdict v-{v}\">{} {v}</span>", words::glyph(v)),
        None => "<span class=verdict>no verdict</span>".to_owned(),
    }
}

/// Facts that every run has.
pub(crate) fn run_facts(run: &Run) -> Vec<(&'static str, String)> {
    let took = run.end_ms.map(|end| words::duration((end - run.begin_ms).max(0) as u64 * 1000));
    let host = match (run.host.kernel.is_empty(), run.host.cpus) {
        (true, 0) => "–".to_owned(),
        (true, n) => words::counted(n as u64, "CPU"),
        (false, n) => format!("Linux {} · {}", text(&run.host.kernel), words::counted(n as u64, "CPU")),
    };
    vec![
        ("Started", words::when(run.begin_ms)),
        ("Took", took.unwrap_or_else(|| "not finished".to_owned())),
        ("Seed", run.seed.to_string()),
        ("Run", format!("<span title=\"{}\">{}</span>", run.id, run.id.short())),
        ("Host", host),
        (
            "Faultloom",
            if run.host.tool_version.is_empty() { "–".to_owned() } else { text(&run.host.tool_version).to_string() },
        ),
    ]
}

pub(crate) fn render(page: &Page) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let mut out = String::with_capacity(1 << 18);
    put!(
        out,
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n<meta name=viewport content=\"width=device-width, initial-scale=1\">\n<meta name=color-scheme content=\"light dark\">\n<meta name=referrer content=no-referrer>\n<title>{} · Faultloom {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        text(page.title),
        page.kind
    );
    put!(
        out,
        "<a class=skip href=#main>Skip to the content</a><header class=mast><div class=wide><p class=brand><b>Faultloom</b> {} report<button type=button id=theme hidden>Light or dark</button></p><h1>{}</h1>{}",
        page.kind,
        text(page.title),
        page.lead
    );
    out.push_str("<dl class=facts>");
    for (name, value) in &page.facts {
        put!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl></div></header><nav class=toc aria-label=Sections><div class=wide>");
    for s in &page.sections {
        put!(out, "<a href=#{}>{}", s.id, s.title);
        if !s.figure.is_empty() {
            put!(out, " <span>{}</span>", s.figure);
        }
        out.push_str("</a>");
    }
    out.push_str("</div></nav><main id=main class=wide>");
    for s in &page.sections {
        put!(out, "<section id={0} aria-labelledby={0}-h><h2 id={0}-h>{1}</h2>{2}</section>\n", s.id, s.title, s.body);
    }
    put!(
        out,
        "</main><footer class=wide><p>This file is self-contained: it loads nothing and sends nothing. Run {}.</p></footer>\n",
        page.run.id
    );
    put!(
        out,
        "<script type=\"application/json\" id=data>{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        json(&page.data)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_cannot_end_their_own_element_and_load_nothing() {
        for asset in [STYLE, SCRIPT] {
            let lower = asset.to_lowercase();
            for bad in ["</script", "</style", "<!--", "http:", "https:", "@import", "url("] {
                assert!(!lower.contains(bad), "{bad}");
            }
        }
    }
}
