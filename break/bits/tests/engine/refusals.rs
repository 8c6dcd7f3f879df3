//! Programs that are hard to study: each is either studied as any other, or refused before anything is flipped, with
//! the problem, its reason, and what to do.

use crate::support::{Engine, compiled, draw, possible, program, timeless, written};
use bit_flips::engine_messages::{Injected, Limits, Method, Profile, Program, Request, Sites, Stepper};
use model::flip::{Ending, FlipType, Output};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A program that does one thing that is hard to study, chosen by its argument.
fn misfit(act: &str) -> Program {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let path = MADE.get_or_init(|| compiled("misfit", &[]));
    program(&[&path.to_string_lossy(), act], None)
}

/// The text of a refusal, which has all three parts.
fn refusal(program: &Program) -> String {
    let refusal = Engine::start().begin(program).expect_err("it is refused");
    assert!(
        refusal.lines().count() >= 3 && refusal.lines().all(|line| !line.trim().is_empty()),
        "what, why, next: {refusal}"
    );
    refusal
}

#[track_caller]
fn is_refused(program: &Program, words: &[&str]) {
    let refusal = refusal(program);
    for word in words {
        assert!(refusal.contains(word), "{word:?} is not in: {refusal}");
    }
}

/// Studied as any other: golden output, controls like it, flips by forks as by fresh processes.
fn studied(program: &Program) -> (Profile, String) {
    let mut engine = Engine::start();
    let profile = engine.begin(program).unwrap();
    let draw = draw(&[FlipType::Cf, FlipType::Wreg, FlipType::Rval], 5);
    let (forked, _) = engine.inject(&draw, Method::Fork, &[], &[]);
    let (fresh, _) = engine.inject(&draw, Method::Fresh, &[], &[]);
    for control in forked.iter().filter(|one| one.injection.is_none()) {
        assert_eq!(control.output, None, "a control is golden");
    }
    for (one, other) in forked.into_iter().zip(fresh) {
        assert_eq!(without_ids(one), without_ids(other));
    }
    let output = String::from_utf8_lossy(&profile.golden.streams[0].bytes).into_owned();
    (profile, output)
}

/// A flip may turn on debug output of the dynamic linker, which contains the process id.
fn without_ids(injected: Injected) -> Injected {
    Injected { stderr: Vec::new(), ..timeless(injected) }
}

#[test]
fn programs_of_every_build_are_studied() {
    if !possible() {
        return;
    }
    // the last one is where the code cache would be, and is stepped
    let at_cache: &[&str] = &["-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x70000000"];
    let built: [&[&str]; 6] = [&["-pie"], &["-no-pie", "-fno-pie"], &["-static"], &["-static-pie"], &["-s"], at_cache];
    for options in built {
        let program =
            program(&[&compiled("sums", options).to_string_lossy()], Some(written("two-lines", b"one\ntwo\n")));
        let (profile, output) = studied(&program);
        assert_eq!(output.lines().count(), 2, "{options:?}");
        let is_remarked = profile.remarks.iter().any(|remark| remark.contains("stripped"));
        assert_eq!(is_remarked, options == ["-s"], "{:?}", profile.remarks);
    }
}

#[test]
fn a_site_filter_that_excludes_everything_is_refused() {
    if !possible() {
        return;
    }
    let mut program = misfit("fails");
    program.sites = Sites { libraries: vec!["libnothing".into()], ..Sites::default() };
    is_refused(&program, &["the site filter excludes every instruction", "--library"]);
}

#[test]
fn a_privileged_program_is_refused() {
    if !possible() {
        return;
    }
    let path = compiled("misfit", &[]);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
    is_refused(&program(&[&path.to_string_lossy(), "fails"], None), &["setuid", "study the copy"]);
}

#[test]
fn code_that_changes_is_refused_unless_its_protection_changes() {
    if !possible() {
        return;
    }
    for act in ["jit", "late-jit"] {
        is_refused(&misfit(act), &["cannot be repeated exactly", "generates code at run time"]);
    }
    let open = compiled("misfit", &["-Wl,-z,execstack"]);
    is_refused(&program(&[&open.to_string_lossy(), "fails"], None), &["both writable and executable", "noexecstack"]);
    let (_, output) = studied(&misfit("strict-jit"));
    assert_eq!(output, "42\n43\n");
}

#[test]
fn a_program_that_reads_its_own_code_is_refused_only_where_breakpoints_are_in_it() {
    if !possible() {
        return;
    }
    let cache = program(&[&compiled("checksum", &[]).to_string_lossy()], None);
    let [block, step] = [Stepper::Block, Stepper::Step].map(|stepper| Program { stepper, ..cache.clone() });
    is_refused(&block, &["writes different output when it is stepped", "stdout differs from byte", "--stepper step"]);
    let by_itself = std::process::Command::new(&block.argv[0]).output().unwrap().stdout;
    for program in [cache, step] {
        assert_eq!(studied(&program).1.as_bytes(), by_itself);
    }
}

#[test]
fn a_program_whose_forks_would_share_state_is_refused() {
    if !possible() {
        return;
    }
    is_refused(&misfit("shared"), &["cannot be repeated exactly", "MAP_SHARED"]);
    is_refused(&misfit("pipe"), &["its forks would share", "pipe:"]);
    is_refused(&misfit("nameless"), &["its forks would share", "gone (deleted)"]);
}

#[test]
fn output_that_is_never_the_same_is_refused_with_the_bytes() {
    if !possible() {
        return;
    }
    is_refused(&misfit("real-id"), &["write different output", "stdout differs from byte 16", "this is process"]);
    is_refused(&misfit("threaded-clock"), &["write different output", "stdout differs from byte"]);
}

#[test]
fn a_path_that_is_never_the_same_is_refused_with_the_place() {
    if !possible() {
        return;
    }
    let unsteady = misfit("unsteady");
    is_refused(
        &unsteady,
        &["take different paths", "differ first at instruction", "unsteady (misfit", "the last system call"],
    );
    // stepped to breakpoints, it is profiled once, and refused at the first flip that it does not reach
    let alone = compiled("misfit", &[]).to_string_lossy().into_owned();
    let unsteady = Program { stepper: Stepper::Block, ..program(&[&alone, "unsteady"], None) };
    for method in [Method::Fork, Method::Fresh] {
        let mut engine = Engine::start();
        engine.begin(&unsteady).unwrap();
        let draw = draw(&[FlipType::Cf], 200);
        let request = Request::Inject { draw, method, skip: Vec::new(), only: Vec::new() };
        let refusal = engine.refused(&request);
        assert!(refusal.contains("take different paths") && refusal.contains("at instruction"), "{refusal}");
        assert_eq!(processes(&alone), 0, "the golden process and its forks have ended");
    }
}

/// How many processes run a program.
fn processes(path: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(path.as_bytes())).count()
}

#[test]
fn time_random_numbers_and_ids_are_the_same_in_every_run() {
    if !possible() {
        return;
    }
    let path = compiled("surroundings", &[]);
    let outputs = [Stepper::Cache, Stepper::Block, Stepper::Step].map(|stepper| {
        let program = Program { stepper, ..program(&[&path.to_string_lossy()], None) };
        studied(&program).1
    });
    let lines: Vec<_> = outputs[0].lines().collect();
    assert_eq!(lines[..4], ["1700000000", "slept 3605", "waited 3", "1000 1000 1"], "{}", outputs[0]);
    let path = lines[4].strip_prefix("path ").map(|path| u64::from_str_radix(path, 16));
    assert!(matches!(path, Some(Ok(1..))) && lines.len() == 6, "{}", outputs[0]);
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:?}");
    let (_, output) = studied(&misfit("random"));
    assert!(output.starts_with("this is number "), "{output}");
    let (_, output) = studied(&misfit("sleeps"));
    assert_eq!(output, "awake\n");
}

#[test]
fn a_flip_of_the_time_stamp_counter_is_activated() {
    if !possible() {
        return;
    }
    let path = compiled("surroundings", &[]);
    let mut program = program(&[&path.to_string_lossy()], None);
    program.sites.symbols = vec!["counter".into(), "counter_and_processor".into()];
    let mut engine = Engine::start();
    let golden = counters(&engine.begin(&program).unwrap().golden);
    let draw = draw(&[FlipType::Wreg], 120);
    for method in [Method::Fork, Method::Fresh] {
        let (all, _) = engine.inject(&draw, method, &[], &[]);
        for (index, name) in ["rdtsc", "rdtscp"].into_iter().enumerate() {
            let mut registers = BTreeSet::new();
            for Injected { injection, effect, output, .. } in &all {
                let Some(injection) = injection.as_ref().filter(|one| one.instruction.trim() == name) else { continue };
                assert!(effect.activated && effect.crash.is_none(), "{name}: {effect:?}");
                let (low, high) = (golden[index] & 0xffff_ffff, golden[index] >> 32);
                let register = effect.hit.split(' ').next().unwrap_or_default();
                let flipped = match register {
                    "eax" | "rax" => high << 32 | (low ^ 1 << injection.bit),
                    "edx" | "rdx" => (high ^ 1 << injection.bit) << 32 | low,
                    // the number of the processor, which the program does not use
                    _ => golden[index],
                };
                let mut expected = golden;
                expected[index] = flipped;
                assert_eq!(output.as_ref().map_or(golden, counters), expected, "{name}: {injection:?} {effect:?}");
                registers.insert(register.trim_start_matches(['e', 'r']).to_owned());
            }
            assert!(["ax", "dx"].iter().all(|half| registers.contains(*half)), "{name}: {registers:?} of 120 flips");
        }
    }
}

/// The values of the time stamp counter that `surroundings` prints.
fn counters(output: &Output) -> [u64; 2] {
    let text = String::from_utf8_lossy(&output.streams[0].bytes).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("counters ")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<_> = line.split(' ').map(|number| u64::from_str_radix(number, 16).unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn a_program_that_maps_the_memory_of_the_code_cache_is_refused_unless_it_is_stepped() {
    if !possible() {
        return;
    }
    let maps = misfit("maps-cache");
    is_refused(&maps, &["cannot be repeated exactly", "--stepper block"]);
    assert_eq!(studied(&Program { stepper: Stepper::Block, ..maps }).1, "mapped\n");
}

#[test]
fn a_signal_to_its_virtual_id_reaches_the_program() {
    if !possible() {
        return;
    }
    is_refused(&misfit("aborts"), &["killed by signal 6"]);
}

#[test]
fn a_program_that_affects_other_processes_is_refused() {
    if !possible() {
        return;
    }
    for act in ["forks", "spawns", "daemonises", "becomes", "kills"] {
        is_refused(&misfit(act), &["starts, replaces or signals other processes", "foreground"]);
    }
}

#[test]
fn a_program_that_does_not_end_is_refused_soon() {
    if !possible() {
        return;
    }
    let limited = |act, limits| Program { limits, ..misfit(act) };
    let begin = Instant::now();
    is_refused(&limited("loops", Limits { seconds: 1, ..Limits::default() }), &["does not end within 1 s"]);
    is_refused(&misfit("waits"), &["waits for something that does not happen", "--stdin"]);
    let instructions = Limits { instructions: 100, ..Limits::default() };
    is_refused(&limited("counts", instructions), &["more than 100 instructions", "--max-instructions"]);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn a_flood_of_output_is_refused_and_reaches_no_disk() {
    if !possible() {
        return;
    }
    let limits = Limits { file_bytes: 1 << 20, ..Limits::default() };
    let flood = Program { limits, ..misfit("floods") };
    is_refused(&flood, &["writes more than 1048576 bytes to one file", "reduce its output"]);
}

#[test]
fn a_crash_is_refused_and_a_failure_is_not() {
    if !possible() {
        return;
    }
    is_refused(&misfit("crashes"), &["killed by signal 11", "what a pity", "by hand"]);
    let (_, output) = studied(&misfit("fails"));
    assert_eq!(output, "no\n");
    let mut reads_on = misfit("reads-on");
    reads_on.stdin = Some(written("line", b"one line\n"));
    let (_, output) = studied(&reads_on);
    assert_eq!(output, "10000");
}

#[test]
fn a_loop_without_an_end_is_a_hang() {
    if !possible() {
        return;
    }
    let mut program = misfit("counts");
    program.sites = Sites { symbols: vec!["counts".into()], ..Sites::default() };
    let mut engine = Engine::start();
    let profile = engine.begin(&program).unwrap();
    let (all, _) = engine.inject(&draw(&[FlipType::Rval, FlipType::Wval], 60), Method::Fork, &[], &[]);
    let hangs: Vec<_> = all.iter().filter(|one| one.effect.ending == Ending::Hang).collect();
    assert!(!hangs.is_empty(), "of 120 flips of its counter and its bound, none makes it run on");
    for hang in hangs {
        assert!(hang.output.is_some(), "a hanging process has not written its sum");
        let least = u64::from(program.limits.hang_times) * profile.cpu_us;
        assert!(hang.effect.cpu_us >= least.max(program.limits.hang_ms * 1000), "{:?}", hang.effect);
    }
}
