//! The guide "Your own application in ten minutes": its commands in order, on a copy of its application.

use crate::support::{Home, Started, guide, repository, skipped};
use std::process::{Command, Stdio};
use std::time::Instant;

const GUIDE: &str = "docs/guides/your-application.md";

fn missing() -> Option<&'static str> {
    let built = |path: &str| repository().join(path).exists();
    let have = |program: &str| {
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status()
    };
    match () {
        () if !built("sdk/java/agent/target/faultloom-agent.jar") => {
            Some("the Java agent is not built (make test builds it)")
        }
        () if !built("sdk/typescript/dist/register.js") => Some("the Node.js SDK is not built (make test builds it)"),
        () if !["go", "java", "node", "npm", "python3"].iter().all(|p| have(p).is_ok_and(|s| s.success())) => {
            Some("go, java, node, npm or python3 is not installed")
        }
        () => None,
    }
}

#[test]
fn every_command_of_the_guide_works() {
    if let Some(reason) = missing() {
        return skipped(reason);
    }
    let blocks = guide::commands(GUIDE);
    assert!(blocks.len() >= 8, "{} blocks", blocks.len());
    let home = Home::new("guide");
    // only tracked files: the guide's commands build the application
    let listed =
        Command::new("git").args(["ls-files", "-z"]).current_dir(repository().join("lab/tickets")).output().unwrap();
    for name in String::from_utf8(listed.stdout).unwrap().split('\0').filter(|name| !name.is_empty()) {
        let to = home.file(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(repository().join("lab/tickets").join(name), to).unwrap();
    }
    let begin = Instant::now();
    let mut said = String::new();
    let mut failed = None;
    for block in &blocks {
        let ran = Started::new(guide::shell(&home, &["-e", "-c", block])).wait();
        said += &format!("$ {block}\n{}{}\n", ran.out, ran.err);
        if ran.status.code() != Some(0) {
            failed = Some(format!("{block}: exit {:?}", ran.status.code()));
            break;
        }
    }
    home.run(&["down"]);
    if let Some(failed) = failed {
        panic!("{failed}\n{said}");
    }
    println!("the guide took {:.0} s", begin.elapsed().as_secs_f64());
    // what the guide promises
    let tree = "GET /seats/{show}";
    assert!(said.contains(tree) && said.contains("no gaps"), "{said}");
    assert!(said.contains("HARD DEPENDENCIES") && said.contains("prices/"), "{said}");
}
