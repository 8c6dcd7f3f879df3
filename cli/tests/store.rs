//! The store: a full disk, a newer version, a damaged file, concurrent commands.

use crate::support::{Home, can_shop, shop_target, wait_for};
use std::path::Path;
use std::process::Command;

const GOOD: &str = "name: t\nservices:\n  - {name: a, command: [sleep, \"1000\"]}\n";

fn python(script: &str, argument: &Path) {
    let status = Command::new("python3").args(["-c", script]).arg(argument).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    let home = Home::new("newer");
    home.write("target.yaml", GOOD);
    home.run(&["runs"]).exits(0).says("no runs yet   next: faultloom record");
    let db = home.file(".faultloom/store.db");
    python(
        "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('pragma user_version=7'); c.commit(); c.close()",
        &db,
    );
    let before = std::fs::read(&db).unwrap();
    let ran = home.run(&["runs"]).exits(3);
    assert_eq!(
        ran.complaint(&home),
        "error: the store .faultloom/store.db has version 7, this faultloom supports 1\n  \
         a newer faultloom wrote it; nothing was changed\n  \
         next: use the newer faultloom, or another store with --home DIR\n"
    );
    home.run(&["record", "http://127.0.0.1:1/"]).exits(3).says("has version 7");
    home.run(&["sweep", "http://127.0.0.1:1/"]).exits(3).says("has version 7");
    home.run(&["doctor"]).exits(3).says("has version 7");
    let json = home.run(&["show", "--json"]).exits(3).json();
    assert_eq!(json["error"]["next"], "use the newer faultloom, or another store with --home DIR");
    assert_eq!(std::fs::read(&db).unwrap(), before);
    home.run(&["runs", "--home", "other"]).exits(0).says("no runs yet");
}

#[test]
fn a_damaged_or_unreadable_store_is_reported() {
    let home = Home::new("damaged");
    home.run(&["runs"]).exits(0);
    let db = home.file(".faultloom/store.db");
    std::fs::write(&db, "this is not a database, not at all, and long enough to have a header of its own").unwrap();
    for beside in ["store.db-wal", "store.db-shm"] {
        std::fs::remove_file(home.file(".faultloom").join(beside)).ok(); // SQLite would repair it from these
    }
    let ran = home.run(&["runs"]).exits(3);
    assert!(ran.err.contains("store.db") && ran.err.contains("next: "), "{}", ran.err);
    // a file where the folder should be
    let file = home.write("file", "");
    home.run(&["runs", "--home", &file.display().to_string()]).exits(3).says("cannot create").says("--home DIR");
    home.run(&["show", "last", "--home", "empty"]).exits(2).says("there is no run 'last'");
}

/// Ten commands open a store that does not exist yet; afterwards it has a run of each.
#[test]
fn concurrent_commands_create_one_store() {
    let home = Home::new("many");
    home.write("target.yaml", GOOD);
    home.run(&["up", "-d"]).exits(0);
    std::fs::remove_file(home.file(".faultloom/store.db")).ok();
    let started: Vec<_> = (0..10).map(|_| home.start(&["record", "http://127.0.0.1:1/"])).collect();
    for record in started {
        record.wait().exits(3).says("cannot be reached");
    }
    assert_eq!(home.run(&["runs", "--json"]).exits(0).json().as_array().unwrap().len(), 10);
    home.run(&["down"]).exits(0);
}

/// A small file system, unmounted when this is dropped. None if mounting is not allowed.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(at: &Path, kilobytes: u32) -> Option<SmallDisk<'_>> {
        std::fs::create_dir_all(at).unwrap();
        let size = format!("size={kilobytes}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        if mounted.is_ok_and(|m| m.status.success()) {
            return Some(SmallDisk(at));
        }
        crate::support::skipped("mounting a small file system needs root");
        None
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_ends_a_sweep_in_order_and_loses_nothing() {
    if !can_shop() {
        return;
    }
    let home = Home::new("full");
    shop_target(&home, "paper");
    let store = home.file(".faultloom");
    let Some(disk) = SmallDisk::mount(&store, 1200) else { return };
    let recorded = home.run(&["record", "--json"]).exits(0).json()["run"].as_str().unwrap().to_owned();
    let ran = home.run(&["sweep", "-s", "services", "-s", "temporal"]).exits(3);
    assert!(ran.err.contains("No space left on device"), "{}", ran.err);
    assert!(ran.err.contains("free some space") && ran.err.contains("--resume "), "{}", ran.err);
    home.assert_nothing_runs();
    // earlier runs and the stored cases are readable
    home.run(&["show", &recorded]).exits(0).says("Convert ×10");
    home.run(&["runs"]).exits(0).says("unfinished");
    let hint = ran.err.split("--resume ").nth(1).unwrap().split([';', ' ', '\n']).next().unwrap().to_owned();
    // with free space it is resumed
    let more = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&store).status().unwrap();
    assert!(more.success());
    let json = home.run(&["sweep", "--resume", &hint, "--json", "-c", "32"]).exits(1).json();
    let spaces = json["sweep"]["spaces"].as_array().unwrap();
    assert_eq!((spaces[0]["cases"].as_u64(), spaces[1]["cases"].as_u64()), (Some(16), Some(16_384)));
    assert_eq!((spaces[0]["failures"].as_u64(), spaces[1]["failures"].as_u64()), (Some(4), Some(7_164)));
    home.assert_nothing_runs();
    drop(disk);
}

#[test]
fn a_disk_that_is_full_from_the_start_is_reported() {
    let home = Home::new("full-start");
    home.write("target.yaml", GOOD);
    let store = home.file(".faultloom");
    let Some(disk) = SmallDisk::mount(&store, 16) else { return };
    std::fs::write(store.join("ballast"), vec![0; 20_000]).ok();
    for verb in [&["up"][..], &["up", "-d"], &["runs"], &["record", "http://127.0.0.1:1/"]] {
        let ran = home.run(verb).exits(3);
        let text = ran.err.to_lowercase();
        assert!(text.contains("full") || text.contains("no space") || text.contains("disk"), "{verb:?}: {}", ran.err);
        assert!(ran.err.contains("next: "), "{verb:?}: {}", ran.err);
        home.assert_nothing_runs();
    }
    drop(disk);
}

/// The second command uses the target of the first; when the first ends, the second reports it.
#[test]
fn a_sweep_that_uses_the_services_of_another_ends_in_order_when_they_stop() {
    if !can_shop() {
        return;
    }
    let home = Home::new("borrow");
    shop_target(&home, "paper");
    let first = home.start(&["sweep", "-s", "temporal", "-c", "1"]);
    wait_for("the target", || home.run(&["runs"]).out.contains("unfinished").then_some(()));
    let second = home.start(&["sweep", "-s", "temporal", "-c", "1", "--json"]);
    wait_for("both", || (home.run(&["runs"]).out.matches("unfinished").count() == 2).then_some(()));
    wait_for("cases of both", || {
        let runs = std::fs::read_dir(home.file(".faultloom/runs")).unwrap().flatten();
        let begun = runs.filter(|d| std::fs::metadata(d.path().join("cases.jsonl")).is_ok_and(|m| m.len() > 0)).count();
        (begun == 2).then_some(())
    });
    first.signal("INT");
    first.wait().exits(4);
    let json = second.wait().exits(3).json();
    assert!(json["error"]["next"].as_str().unwrap().contains("--resume"), "{json}");
    home.assert_nothing_runs();
    // no case is lost, and none has a wrong verdict
    let id = home.run(&["runs", "-n", "1", "--json"]).exits(0).json()[0]["id"].as_str().unwrap().to_owned();
    let resumed = home.run(&["sweep", "--resume", &id, "--json", "-c", "32"]).exits(1).json();
    assert_eq!(resumed["sweep"]["spaces"][0]["failures"], 7_164);
    assert_eq!(resumed["sweep"]["spaces"][0]["cases"], 16_384);
}

/// A process that was killed between creating a run's folder and storing the run leaves a folder without a run.
#[test]
fn orphaned_folders_are_named_and_removed() {
    let home = Home::new("orphans");
    home.run(&["runs", "--clean"]).exits(0).says("0 orphaned folders removed");
    let orphan = home.file(".faultloom/runs/0199a1b2-c3d4-7e5f-8a6b-0123456789ab");
    std::fs::create_dir(&orphan).unwrap();
    std::fs::write(orphan.join("cases.jsonl"), "{}\n").unwrap();
    std::fs::create_dir(home.file(".faultloom/runs/notes")).unwrap();
    let ran = home.run(&["runs", "--clean"]).exits(0).says("1 orphaned folder removed");
    assert!(ran.out.contains("0123456789ab   1 file, 3 bytes   removed: no run has this id"), "{}", ran.out);
    assert!(ran.out.contains("runs/notes   0 files, 0 bytes   kept: its name is not a run's id"), "{}", ran.out);
    assert!(!orphan.exists());
    let json = home.run(&["runs", "--clean", "--json"]).exits(0).json();
    assert_eq!((json["removed"].as_array().unwrap().len(), json["foreign"].as_array().unwrap().len()), (0, 1));
    home.run(&["runs", "--clean", "--delete", "abcd"]).exits(2).says("cannot be used with");
}
