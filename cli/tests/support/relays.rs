//! The relays of `lab/relay`, one per language, up on free ports.

use super::{Home, free_ports, repository, skipped};

pub const LANGUAGES: [&str; 4] = ["go", "java", "python", "node"];
/// How a relay may call its next stop.
pub const KINDS: [&str; 5] = ["http", "call", "watch", "collect", "talk"];

/// Stopped when dropped.
pub struct Relays {
    pub home: Home,
    base: u16,
}

impl Relays {
    /// With these variables in every relay's environment. None, with a counted skip, if they are not built.
    pub fn up(name: &str, settings: &[(&str, &str)]) -> Option<Relays> {
        let root = repository();
        let built = [
            "out/relay/relay",
            "out/relay/venv/bin/python",
            "lab/relay/java/target/relay.jar",
            "lab/relay/node/node_modules",
        ];
        if let Some(missing) = built.iter().find(|path| !root.join(path).exists()) {
            skipped(&format!("{missing} is not built (make test builds it)"));
            return None;
        }
        let home = Home::new(name);
        let base = free_ports(8);
        let mut text = std::fs::read_to_string(root.join("lab/relay/target.yaml")).unwrap();
        for i in 0..8 {
            let port = if i < 4 { 7401 + i } else { 7407 + i };
            text = text.replace(&port.to_string(), &(base + i).to_string());
        }
        let root = root.display().to_string();
        text = text.replace("../../../out/", &format!("{root}/out/")).replace("../../out/", &format!("{root}/out/"));
        for language in LANGUAGES {
            text = text.replace(&format!("directory: {language}"), &format!("directory: {root}/lab/relay/{language}"));
        }
        let settings: String = settings.iter().map(|(name, value)| format!("{name}: \"{value}\", ")).collect();
        text = text.replace("environment: {", &format!("environment: {{{settings}"));
        home.write("target.yaml", &text);
        home.run(&["up", "-d", "--json"]).exits(0);
        Some(Relays { home, base })
    }

    /// The port of a language's HTTP server.
    pub fn port(&self, language: usize) -> u16 {
        self.base + language as u16
    }

    pub fn stop(&self, kind: &str, language: usize) -> String {
        format!("stop={kind}+127.0.0.1:{}", self.port(language) + if kind == "http" { 0 } else { 4 })
    }

    /// The path of a request that makes a journey.
    pub fn path(stops: &[String]) -> String {
        format!("/relay?{}", stops.join("&"))
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.home.run(&["down"]);
    }
}
