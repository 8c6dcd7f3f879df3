//! The built page. Its source is TypeScript in this folder; `dist` holds what `npm run build` wrote, so that only its
//! developers need Node.js.

const FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The page of the workbench.
pub const INDEX: &str = "index.html";

/// A file of the app, by its path below the page: `index.html`, `assets/app.js`.
pub fn file(path: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(name, _)| *name == path).map(|(_, bytes)| *bytes)
}

/// The script of an exported report, which has its data in the page.
pub fn report_script() -> &'static str {
    text("report.js")
}

pub fn report_style() -> &'static str {
    text("report.css")
}

/// Empty if the file is missing or no text, which a test excludes.
fn text(path: &str) -> &'static str {
    file(path).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
}

/// The media type of a file, by its name.
pub fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_report_are_built() {
        let index = std::str::from_utf8(file(INDEX).expect("index.html")).expect("text");
        assert!(index.contains("<!doctype html>") && index.contains("assets/"));
        assert!(report_script().len() > 10_000 && report_style().len() > 1_000);
    }

    #[test]
    fn every_file_that_the_page_names_is_there() {
        let index = std::str::from_utf8(file(INDEX).expect("index.html")).expect("text");
        let names: Vec<&str> = index.split('"').filter(|part| part.contains("assets/")).collect();
        assert!(!names.is_empty());
        for name in names {
            let path = name.trim_start_matches(['.', '/']);
            assert!(file(path).is_some(), "{name}");
        }
    }

    #[test]
    fn nothing_in_the_page_needs_an_exception_of_its_policy() {
        let index = std::str::from_utf8(file(INDEX).expect("index.html")).expect("text");
        assert!(!index.contains("<style") && !index.contains("style=") && !index.contains("onload="));
        for script in index.split("<script").skip(1) {
            let (tag, rest) = script.split_once('>').expect("a complete tag");
            assert!(tag.contains("src=") && rest.trim_start().starts_with("</script>"), "{tag}");
        }
    }
}
