//! A killed reaper is replaced at once, and the user is warned.

use crate::support::{Folder, children_of, free_port, server, wait_for};
use target::Supervisor;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_reaper_is_replaced_at_once() {
    let folder = Folder::new();
    let (mut options, events) = folder.options_with_events();
    // other tests start reapers in this process as well, so this one's command line names the folder
    options.reaper.arguments.push(folder.0.display().to_string());
    let begins = format!("faultloom-reaper\0reaper\0{}", folder.0.display());
    let supervisor = Supervisor::start(folder.target(&server("a", free_port())), options).await.unwrap();
    let reapers = || children_of(std::process::id(), &begins);
    let before = reapers();
    assert_eq!(before.len(), 1);
    let kill = std::process::Command::new("kill").args(["-KILL", &before[0].to_string()]).status();
    assert!(kill.unwrap().success());
    wait_for("another reaper", || (reapers().len() == 1 && reapers() != before).then_some(()));
    let warned = || events.lock().unwrap().iter().any(|event| event.contains("the reaper was killed"));
    wait_for("the warning", || warned().then_some(()));
    supervisor.restart("a").await.unwrap();
    supervisor.stop().await.unwrap();
    assert!(folder.processes().is_empty() && reapers().is_empty());
}
