//! The readable text of an HTML page, for a line in a terminal.

/// Without tags, styles and scripts.
pub fn without_markup(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        out.push_str(text);
        out.push(' ');
        let hidden = ["style", "script", "head"].into_iter().find(|name| tag.starts_with(name));
        rest = match hidden.and_then(|name| tag.split_once(&format!("</{name}")).map(|(_, after)| after)) {
            Some(after) => after,
            None => tag,
        };
        rest = rest.split_once('>').map_or("", |(_, after)| after);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_text_is_left() {
        let page = "<head><title>x</title></head><p>Out of <b>stock</b></p><script>if (1 < 2) {}</script>!";
        let words: Vec<String> = without_markup(page).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["Out", "of", "stock", "!"]);
    }
}
