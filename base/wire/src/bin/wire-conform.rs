//! Conformance program of the reference implementation: `wire-conform DIR` prints one line per vector
//! (`spec/README.md`).

use std::path::Path;

fn main() -> Result<(), String> {
    let dir = std::env::args().nth(1).ok_or("usage: wire-conform VECTOR-DIR")?;
    for group in ["bad", "good"] {
        let mut files: Vec<_> = std::fs::read_dir(Path::new(&dir).join(group))
            .map_err(|e| format!("{dir}/{group}: {e}"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        files.sort();
        for path in files {
            let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let vector: serde_json::Value =
                serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            let kind = vector["kind"].as_str().unwrap_or_default();
            let result = wire::conform::result(kind, &vector["input"]).map_err(|e| format!("{group}/{name}: {e}"))?;
            println!("{group}/{name} {result}");
        }
    }
    Ok(())
}
