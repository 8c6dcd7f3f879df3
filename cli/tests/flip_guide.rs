//! The guide "Bit flips": its commands, one after the other, on a small program and a real memcached.

use crate::support::memcached::{self, Memcached};
use crate::support::{Completed, Home, Started, guide};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const GUIDE: &str = "docs/guides/flip.md";

/// The reader's programs. The hardened one computes twice, and exits if the results differ.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
static unsigned table[16];
static unsigned sum(int from) { unsigned all = 0; for (int k = 0; k < 16; k++) all += table[(k + from) & 15] * (k + 1); return all; }
int main(void) {
    for (unsigned i = 0; i < 16; i++) table[i] = i * 2654435761u;
    for (int i = 0; i < 10; i++) {
        unsigned all = sum(i);
        if (HARDENED && all != sum(i)) _exit(86);
        printf("%d %08x\n", i, all);
        fflush(stdout);
    }
    return 0;
}
"#;

/// Text of the guide, and what is run instead: smaller numbers, and a server of the test.
fn shortened(block: &str, server: &Memcached) -> String {
    let (at, pid) = (format!("127.0.0.1:{}", server.port), server.process.pid());
    let device = format!("/dev/tcp/127.0.0.1/{}", server.port);
    let substitutes: [(&str, &str, &str); 7] = [
        ("--exhaustive", "--exhaustive", "--exhaustive -n 20 --types WVAL --symbol pthread_mutex_trylock"),
        ("-u nobody -t 1", "flip --replay", "flip -n 20 --replay"),
        ("--external", "--runs 500", "--runs 20"),
        ("--server", "127.0.0.1:11211", &at),
        ("check.sh", "/dev/tcp/127.0.0.1/11211", &device),
        ("unpack.py", "flip --judge", "flip -n 5 --judge"),
        ("flip live", "$(pidof -s memcached)", &pid),
    ];
    let mut short = block.to_owned();
    for (_, from, to) in substitutes.iter().filter(|(of, ..)| block.contains(of)) {
        assert!(block.contains(from), "the guide looks different now: no '{from}' in\n{block}");
        short = short.replace(from, to);
    }
    short
}

fn prepared() -> Option<Home> {
    let home = Home::new("flip-guide");
    let source = home.write("program.c", PROGRAM);
    for (name, hardened) in [("program", 0), ("server", 0), ("server-hardened", 1)] {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-g", &format!("-DHARDENED={hardened}"), "-o"]).arg(home.file(name)).arg(&source);
        assert!(cc.status().expect("a C compiler").success());
    }
    std::fs::create_dir(home.file("bin")).unwrap();
    // the guide's undervolting is not run
    let disturbance =
        home.write("bin/lower-voltage", "#!/bin/sh\n[ \"$1 $2\" = '--by 120' ] || exit 1\nexec sleep 600\n");
    std::fs::set_permissions(disturbance, PermissionsExt::from_mode(0o755)).unwrap();
    (home.can_contain("./program") && memcached::installed()).then_some(home)
}

#[test]
fn every_command_of_the_guide_works() {
    let Some(home) = prepared() else { return };
    let server = Memcached::start(&home);
    let promises = [
        ("flip -- ./program", "of these undetected"),
        ("flip replay last:812", "the same outcome as in the campaign"),
        ("printf 'replay 1", ""),
        ("-u nobody -t 1", "10 messages · 20 of 20 controls golden"),
        ("unpack.py", "controls golden"),
        ("--variant hardened", "hardening"),
        ("--exhaustive", "every flip in the work for reply 9 of memcached"),
        ("-- ./program", "disturbed by: lower-voltage --by 120"),
        ("--server", "10 messages · 3 of 3 controls golden"),
        ("flip live", "memcached · process"),
    ];
    let blocks = guide::commands(GUIDE);
    assert_eq!(blocks.len(), promises.len(), "{blocks:#?}");
    for (block, (of, promise)) in blocks.iter().zip(promises) {
        assert!(block.contains(of), "not '{of}':\n{block}");
        let block = shortened(block, &server);
        let ran: Completed = Started::new(guide::shell(&home, &["-c", &block])).wait();
        // any verdict; with one or three flips it may be unknown
        let fits = matches!(ran.status.code(), Some(0 | 1)) || of == "flip live" && ran.status.code() == Some(5);
        assert!(fits, "{block}\nexit {:?}\n{}\n{}", ran.status.code(), ran.out, ran.err);
        assert!(ran.out.contains(promise) || ran.err.contains(promise), "{block}\n{}\n{}", ran.out, ran.err);
    }
}
