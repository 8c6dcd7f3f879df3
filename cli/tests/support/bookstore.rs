//! The bookstore of `lab/bookstore`, up on free ports.

use super::{Completed, Home, free_ports, repository, skipped, wait_for};
use serde_json::Value;

/// The services with the ports of the target file, the storefront first.
pub const SERVICES: [(&str, u16); 8] = [
    ("storefront", 9300),
    ("orders", 9301),
    ("catalog", 9302),
    ("stock", 9303),
    ("reviews", 9304),
    ("payment", 9305),
    ("delivery", 9306),
    ("mail", 9307),
];

/// Stopped when dropped.
pub struct Bookstore {
    pub home: Home,
    base: u16,
}

impl Bookstore {
    /// None, with a counted skip, if the bookstore is not built.
    pub fn up(name: &str) -> Option<Bookstore> {
        let root = repository();
        let built = [
            "out/bookstore/storefront",
            "out/bookstore/venv/bin/python",
            "lab/bookstore/java/target/bookstore.jar",
            "lab/bookstore/node/node_modules",
        ];
        if let Some(missing) = built.iter().find(|path| !root.join(path).exists()) {
            skipped(&format!("{missing} is not built (make test builds it)"));
            return None;
        }
        let store = Bookstore { home: Home::new(name), base: free_ports(8) };
        store.start(&[]);
        Some(store)
    }

    /// The text of the target file, with other ports.
    pub fn target(&self, entry: &str, without: &[&str]) -> String {
        let mut text = std::fs::read_to_string(repository().join("lab/bookstore/target.yaml")).unwrap();
        let blocks: Vec<&str> = text.split("  - name: ").collect();
        let kept = |block: &&&str| !without.iter().any(|name| block.starts_with(&format!("{name}\n")));
        text = blocks.iter().filter(kept).copied().collect::<Vec<&str>>().join("  - name: ");
        for (_, port) in SERVICES {
            text = text.replace(&port.to_string(), &(self.base + port - 9300).to_string());
        }
        let root = repository().display().to_string();
        text = text.replace("../../../out/", &format!("{root}/out/")).replace("../../out/", &format!("{root}/out/"));
        for language in ["python", "node", "java"] {
            text =
                text.replace(&format!("directory: {language}"), &format!("directory: {root}/lab/bookstore/{language}"));
        }
        let home_page = format!("entry: http://127.0.0.1:{}/\n", self.base);
        assert!(text.contains(&home_page), "{text}");
        text.replace(&home_page, &format!("entry: http://127.0.0.1:{}{entry}\n", self.base))
    }

    /// Without the services that are named.
    pub fn start(&self, without: &[&str]) {
        self.home.write("target.yaml", &self.target("/", without));
        self.home.run(&["up", "-d", "--json"]).exits(0);
    }

    /// With another page as the entry of the target.
    pub fn start_at(&self, entry: &str) {
        self.home.write("target.yaml", &self.target(entry, &[]));
        self.home.run(&["up", "-d", "--json"]).exits(0);
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.base)
    }

    pub fn record(&self, path: &str, more: &[&str]) -> Completed {
        self.home.run(&[&["record", "--json", &self.url(path)][..], more].concat())
    }

    pub fn order(&self, more: &[&str]) -> Completed {
        let form = r#"{"customer": "ada", "book": "1"}"#;
        let post = ["-X", "POST", "-H", "Content-Type: application/json", "-d", form];
        self.record("/orders", &[&post[..], more].concat())
    }

    /// The first estimates take longer than their deadline, because the delivery service starts slowly.
    pub fn wait_for_estimates(&self) {
        wait_for("an estimate", || {
            let page = self.record("/books/1", &[]).exits(0).json();
            page["body"].as_str().unwrap().contains("delivery_days").then_some(())
        });
    }
}

impl Drop for Bookstore {
    fn drop(&mut self) {
        self.home.run(&["down"]);
    }
}

/// Every call of a trace, as JSON, in the order of sending.
pub fn calls(trace: &Value) -> Vec<&Value> {
    fn walk<'a>(call: &'a Value, all: &mut Vec<&'a Value>) {
        for inner in call["scope"]["calls"].as_array().into_iter().flatten() {
            all.push(inner);
            walk(inner, all);
        }
    }
    let mut all = Vec::new();
    walk(&trace["entry"], &mut all);
    all
}
