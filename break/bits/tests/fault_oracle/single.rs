//! Flips around system calls, signals, the stack's end and several variables, which two plain processes cannot compare.

use crate::scratch::{BASE, CODE, DATA, LANDING, Memory, PAGE, Scratch, code, held};
use crate::shapes::Needs;
use bit_flips::inject::{AppliedFault, Fault, NextAction, apply};
use bit_flips::processor::instruction::Instruction;
use model::flip::FlipType::{self, Asc, Raddr, Rreg, Waddr, Wreg};
use sandbox::tracee::{Registers, Stop, Tracee};

const TRAP_FLAG: u64 = 1 << 8;

fn zeros() -> Memory {
    Memory::filled(|_| 0)
}

/// A process that is stopped before `code`.
fn before(code: &[u8], set: impl FnOnce(&mut Registers)) -> Scratch {
    let mut scratch = crate::vectors::scratch();
    let mut registers = Registers { rsp: DATA + 8 * PAGE, rdi: DATA, ..scratch.registers() };
    set(&mut registers);
    scratch.set(code, &zeros(), &registers);
    scratch
}

fn fault(kind: FlipType, operand: usize, bit: u32) -> Fault {
    Fault { kind, operand, bit, iteration: 0, seed: 1 }
}

fn faulty(scratch: &Scratch, code: &[u8], fault: Fault) -> AppliedFault {
    apply(&scratch.tracee, None, &Instruction::decode(CODE, code).unwrap(), &fault).unwrap()
}

/// The number of the operand that a system call writes to.
fn written(name: &str) -> usize {
    let instruction = Instruction::decode(CODE, code!("syscall")).unwrap();
    let named = |number| format!("{:?}", instruction.operand(Wreg, number)) == format!("Some(Register({name}))");
    (0..instruction.operands(Wreg)).find(|&number| named(number)).unwrap()
}

#[test]
fn results_of_system_calls_flip() {
    let code = code!("syscall");
    let scratch = before(code, |r| r.rax = libc::SYS_getpid as u64);
    let result = faulty(&scratch, code, fault(Wreg, written("RAX"), 2));
    assert!(result.activated && matches!(result.next, NextAction::Resume(0)), "{result:?}");
    let registers = scratch.tracee.registers().unwrap();
    assert_eq!(registers.rax, scratch.tracee.pid as u64 ^ 4);
    assert_eq!((registers.rip, registers.r11 & TRAP_FLAG), (CODE + 2, 0), "r11 holds flags, without that of the step");
}

#[test]
fn a_long_system_call_is_not_waited_for() {
    let code = code!("syscall");
    // 200 ms, from a place that is written after the zeros
    let scratch = before(code, |r| (r.rax, r.rdi, r.rsi) = (libc::SYS_nanosleep as u64, DATA, 0));
    scratch.tracee.write(DATA + 8, &200_000_000u64.to_le_bytes()).unwrap();
    let begin = std::time::Instant::now();
    let result = faulty(&scratch, code, fault(Wreg, written("RAX"), 5));
    let NextAction::Pending(None, rest) = result.next else { panic!("{result:?}") };
    assert!(!result.activated && begin.elapsed().as_millis() < 190, "{:?}", begin.elapsed());
    let stop = scratch.tracee.wait().unwrap();
    let result = rest.resume(&scratch.tracee, &Instruction::decode(CODE, code).unwrap(), stop).unwrap();
    assert!(result.activated && matches!(result.next, NextAction::Resume(0)), "{result:?}");
    assert_eq!(scratch.tracee.registers().unwrap().rax, 1 << 5);
}

#[test]
fn a_new_process_is_reported_before_the_flip() {
    let code = code!("syscall");
    let scratch = before(code, |r| r.rax = libc::SYS_fork as u64);
    scratch.tracee.set_options(libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_EXITKILL).unwrap();
    let result = faulty(&scratch, code, fault(Wreg, written("RAX"), 40));
    let NextAction::Pending(Some(stop), rest) = result.next else { panic!("{result:?}") };
    assert_eq!(stop, Stop::Event(libc::PTRACE_EVENT_FORK));
    let child = Tracee::new(scratch.tracee.event_message().unwrap() as i32).unwrap();
    child.kill();
    while !child.wait().unwrap().ended() {}
    let instruction = Instruction::decode(CODE, code).unwrap();
    let mut result = rest.resume(&scratch.tracee, &instruction, stop).unwrap();
    while let NextAction::Pending(_, rest) = result.next {
        result = rest.resume(&scratch.tracee, &instruction, scratch.tracee.wait().unwrap()).unwrap();
    }
    assert!(result.activated, "{result:?}");
    assert_eq!(scratch.tracee.registers().unwrap().rax, child.pid as u64 ^ 1 << 40);
}

#[test]
fn an_exit_is_an_end_without_a_flip() {
    let code = code!("syscall");
    let scratch = before(code, |r| (r.rax, r.rdi) = (libc::SYS_exit_group as u64, 7));
    let result = faulty(&scratch, code, fault(Wreg, written("RAX"), 0));
    assert!(!result.activated, "{result:?}");
    assert!(matches!(result.next, NextAction::Ended(Stop::Exited(7))), "{result:?}");
}

#[test]
fn a_signal_from_elsewhere_waits_until_after_the_flip() {
    let code = code!("mov rax, [rdi]");
    let scratch = before(code, |r| r.rax = 1);
    scratch.tracee.send(libc::SIGUSR1);
    let result = faulty(&scratch, code, fault(Wreg, 0, 3));
    assert!(result.activated && matches!(result.next, NextAction::Resume(0)), "{result:?}");
    assert_eq!(scratch.tracee.registers().unwrap().rax, 8);
    assert_eq!(scratch.tracee.resume_and_wait(0).unwrap(), Stop::Signal(libc::SIGUSR1));
}

/// The handler gets the information of a real fault.
#[test]
fn a_handler_sees_the_wrong_address() {
    let code = code!("mov [rdi], rax");
    let mut scratch = before(code!("syscall"), |r| {
        let (signal, action, size) = (libc::SIGSEGV as u64, DATA, 8);
        (r.rax, r.rdi, r.rsi, r.rdx, r.r10) = (libc::SYS_rt_sigaction as u64, signal, action, 0, size);
    });
    const SA_RESTORER: u64 = 0x0400_0000;
    let action = [LANDING, libc::SA_SIGINFO as u64 | SA_RESTORER, LANDING, 0];
    scratch.tracee.write(DATA, &action.map(u64::to_le_bytes).concat()).unwrap();
    scratch.step();
    let registers = scratch.tracee.registers().unwrap();
    assert_eq!(registers.rax, 0, "the handler is set");

    scratch.set(code, &zeros(), &Registers { rip: CODE, rdi: DATA, orig_rax: u64::MAX, ..registers });
    let result = faulty(&scratch, code, fault(Waddr, 0, 35));
    let NextAction::Resume(signal) = result.next else { panic!("{result:?}") };
    assert_eq!(signal, libc::SIGSEGV);
    assert!(scratch.tracee.resume_and_wait(signal).unwrap().trapped(), "in its handler");
    let handling = scratch.tracee.registers().unwrap();
    assert_eq!((handling.rip, handling.rdi), (LANDING + 1, libc::SIGSEGV as u64));
    assert_eq!(scratch.tracee.read_u64(handling.rsi + 16).unwrap(), DATA ^ 1 << 35, "address");
    assert_eq!(scratch.tracee.read_u64(handling.rsi + 8).unwrap() as u32, 1, "nothing is mapped there");
}

/// Below its end, the stack grows on any access.
#[test]
fn the_stack_grows_for_a_wrong_address() {
    let code = code!("mov [rdi], rax");
    let mut scratch = before(code, |_| {});
    let maps = bit_flips::program::mappings::Mappings::of(scratch.tracee.pid).unwrap();
    let stack = maps.0.iter().find(|mapping| mapping.name == "[stack]").expect("a stack").start;
    let bit = stack.trailing_zeros();
    let wrong = (stack + 64) ^ (1 << bit);
    if bit > 16 || maps.at(wrong).is_some() {
        return crate::skipped("this stack ends where one flipped bit does not leave it");
    }
    let registers = Registers { rip: CODE, rdi: stack + 64, rax: 77, ..scratch.registers() };
    scratch.set(code, &zeros(), &registers);
    let result = faulty(&scratch, code, fault(Waddr, 0, bit));
    assert!(result.activated && matches!(result.next, NextAction::Resume(0)), "{result:?}");
    assert_eq!(scratch.tracee.read_u64(wrong).unwrap(), 77);
}

#[test]
fn an_idle_repetition_begins_when_its_counter_flips() {
    let code = code!("rep stosq");
    let mut scratch = before(code, |r| (r.rcx, r.rax) = (0, 5));
    let counter = Instruction::decode(CODE, code).unwrap().idle_operand(Rreg).unwrap();
    let result = faulty(&scratch, code, fault(Rreg, counter.into(), 1));
    assert_eq!(result.hit, "rcx 0x0 -> 0x2");
    let mut state = scratch.run();
    assert_eq!([0, 8, 16].map(|offset| state.memory.word(DATA + offset)), [5, 5, 0]);
}

#[test]
fn mmx_registers_flip_in_place() {
    for kind in [Wreg, Rreg] {
        let (code, prepared) = match kind {
            Wreg => (code!("movq mm3, [rdi]", "movq [rdi+8], mm3", "emms"), &[][..]),
            // the top of the x87 stack is not its first place when MMX comes again
            _ => (code!("movq mm3, [rdi]", "fld1", "movq [rdi+8], mm3", "emms"), code!("movq mm3, [rdi]", "fld1")),
        };
        let mut scratch = before(code, |_| {});
        let ip = CODE + prepared.len() as u64;
        if !prepared.is_empty() {
            scratch.step();
            scratch.step();
        }
        let instruction = Instruction::decode(ip, &code[prepared.len()..]).unwrap();
        let named = |number: &usize| format!("{:?}", instruction.operand(kind, *number)).contains("MM3");
        let operand = (0..instruction.operands(kind)).find(named).unwrap();
        let result = apply(&scratch.tracee, None, &instruction, &fault(kind, operand, 33)).unwrap();
        assert!(result.activated, "{result:?}");
        assert_eq!(scratch.run().memory.word(DATA + 8), 1 << 33, "{kind}");
    }
}

/// The kernel stores no state of registers that are all zeros; a flip adds it.
#[test]
fn vector_registers_without_state_flip() {
    if Needs::present() < Needs::Avx2 {
        return crate::skipped("this processor has no AVX2");
    }
    let (code, prepared) = (code!("vzeroall", "vmovdqu [rdi], ymm5"), code!("vzeroall"));
    for bit in [3, 127, 128, 255] {
        let mut scratch = before(code, |_| {});
        scratch.step();
        let instruction = Instruction::decode(CODE + prepared.len() as u64, &code[prepared.len()..]).unwrap();
        let named = |number: &usize| format!("{:?}", instruction.operand(Rreg, *number)).contains("YMM5");
        let operand = (0..instruction.operands(Rreg)).find(named).unwrap();
        let result = apply(&scratch.tracee, None, &instruction, &fault(Rreg, operand, bit)).unwrap();
        assert!(result.activated, "{result:?}");
        let mut memory = scratch.run().memory;
        let stored = [0, 1, 2, 3].map(|lane| memory.word(DATA + 8 * lane));
        assert_eq!(
            stored,
            [0, 1, 2, 3].map(|lane| if lane == u64::from(bit / 64) { 1 << (bit % 64) } else { 0 }),
            "bit {bit}"
        );
    }
}

/// Exactly the reported variables are corrupted, and the same seed corrupts the same ones.
#[test]
fn arbitrary_values_hit_several_variables() {
    let code = code!("mov rax, [rdi]");
    let mut places = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let run = || {
            // a register that points to other memory of the test would make that a variable as well
            let scratch = before(code, |r| {
                (r.rax, r.rcx, r.rdx, r.rbp) = (0, 0, 0, 0);
                (r.r8, r.r9, r.r10, r.r11) = (0, 0, 0, 0);
                (r.r12, r.r13, r.r14, r.r15) = (0, 0, 0, 0);
                (r.rsi, r.rbx) = (DATA + PAGE + 3, BASE + 2 * PAGE);
            });
            let undisturbed = scratch.tracee.registers().unwrap();
            let result = faulty(&scratch, code, Fault { seed, ..fault(Asc, 0, 0) });
            assert!(result.activated, "{result:?}");
            let now = scratch.tracee.registers().unwrap();
            let memory = held(&scratch);
            (result.hit, undisturbed, now, memory)
        };
        let (hit, undisturbed, now, mut memory) = run();
        assert_eq!(run().0, hit, "seed {seed}");
        let hits: Vec<&str> = hit.split(", ").collect();
        assert!((2..=4).contains(&hits.len()), "{hit}");
        let mut expected = zeros();
        let mut registers = 0;
        for hit in hits {
            let (place, values) = hit.split_once(' ').unwrap();
            let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
            let after = number(values.rsplit(' ').next().unwrap());
            match place.strip_prefix('[') {
                None => registers += 1,
                Some(address) => {
                    let address = number(address.trim_end_matches(']'));
                    assert_eq!(address % 8, 0);
                    expected.put(address, &after.to_le_bytes());
                }
            }
            assert!(places.insert((seed, place.to_owned())), "each once");
        }
        assert_eq!(memory.differences(&mut expected), Vec::<String>::new(), "{hit}");
        let general = |r: &Registers| {
            [r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
        };
        let changed =
            general(&undisturbed).iter().zip(general(&now)).filter(|(before, after)| **before != *after).count();
        assert_eq!((changed, now.rip, now.rsp), (registers, undisturbed.rip, undisturbed.rsp), "{hit}");
    }
    let memory = places.iter().filter(|(_, place)| place.starts_with('[')).count();
    assert!(memory > 10 && places.len() - memory > 10, "both kinds are hit");
}

/// A flip never changes memory at the intended address.
#[test]
fn a_read_elsewhere_leaves_memory_alone() {
    let code = code!("mov rax, [rdi]");
    let scratch = before(code, |_| {});
    let result = faulty(&scratch, code, fault(Raddr, 0, 3));
    assert!(result.activated, "{result:?}");
    assert_eq!(held(&scratch).differences(&mut zeros()), Vec::<String>::new());
}
