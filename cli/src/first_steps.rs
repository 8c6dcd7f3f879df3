//! What `faultloom` prints without arguments.

use std::path::Path;

/// The first three steps in this folder. A step that has been done says so.
pub fn text(folder: &Path) -> String {
    let has_target = folder.join("target.yaml").exists();
    let init = if has_target {
        "done: target.yaml is here"
    } else {
        "describe your application: finds compose files, manifests, Procfiles, and with --attach what runs"
    };
    format!(
        "Faultloom shows how a distributed system fails before its users find out.\n\
         \n \
         1  faultloom init          {init}\n \
         2  faultloom up --detach   start its services with tracing; `faultloom doctor --target` checks each\n \
         3  faultloom sweep         send a request with a fault at every call, and list the bugs\n\
         \n\
         `faultloom help` lists all commands, `faultloom help sweep` explains one.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_done_if_a_target_file_exists() {
        let folder = std::env::temp_dir().join(format!("faultloom-steps-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(text(&folder).contains("describe your application"));
        std::fs::write(folder.join("target.yaml"), "").unwrap();
        assert!(text(&folder).contains("done"));
        assert!(text(&folder).lines().all(|line| line.chars().count() <= 125));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
