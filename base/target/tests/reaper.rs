//! A reaper that somebody kills is replaced. Alone in its file: it looks at the children of its own process.

mod support;

use support::{Folder, children_of, free_port, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_reaper_is_replaced_at_the_next_restart() {
    let folder = Folder::new();
    let supervisor = folder.start(&server("a", free_port())).await.unwrap();
    let reapers = || children_of(std::process::id(), "faultloom-reaper");
    let before = reapers();
    assert_eq!(before.len(), 1);
    let kill = std::process::Command::new("kill").args(["-KILL", &before[0].to_string()]).status();
    assert!(kill.unwrap().success());
    support::wait_for("the reaper's end", || reapers().is_empty().then_some(()));
    supervisor.restart("a").await.unwrap();
    assert!(reapers().len() == 1 && reapers() != before);
    supervisor.stop().await.unwrap();
    assert!(folder.processes().is_empty() && reapers().is_empty());
}
