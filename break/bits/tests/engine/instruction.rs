//! Decoding: operands, widths, flow and class of known instructions, and no panic on any bytes.

use bit_flips::processor::control_flow::ControlFlow;
use bit_flips::processor::instruction::{Instruction, Operand};
use model::flip::FlipType::{self, Cf, Raddr, Rreg, Rval, Text, Waddr, Wreg, Wval};
use proptest::prelude::*;

const IP: u64 = 0x40_0000;

fn decoded(code: &[u8]) -> Instruction {
    Instruction::decode(IP, code).expect("valid code")
}

/// Its operands of a kind, as `name/bits`.
fn operands(instruction: &Instruction, kind: FlipType) -> String {
    let name = |number| match instruction.operand(kind, number).expect("below the count") {
        Operand::Register(register) => format!("{register:?}").to_lowercase(),
        Operand::Flags(flags) => format!("flags{flags:x}"),
        _ => String::from("memory"),
    };
    let each =
        (0..instruction.operands(kind)).map(|number| format!("{}/{}", name(number), instruction.width(kind, number)));
    each.collect::<Vec<_>>().join(" ")
}

#[test]
fn known_instructions_have_their_operands() {
    #[rustfmt::skip]
    let known: &[(&[u8], [&str; 6])] = &[
        // code, text, class, registers read, written, memory read, written
        (&[0xb8, 1, 0, 0, 0], ["mov eax,1", "move", "", "rax/64", "", ""]),
        (&[0x48, 0x8b, 0x00], ["mov rax,[rax]", "move", "rax/64", "rax/64", "memory/64", ""]),
        (&[0x88, 0xe0], ["mov al,ah", "move", "ah/8", "al/8", "", ""]),
        (&[0x48, 0x89, 0x85, 0x20, 0xff, 0xff, 0xff], ["mov [rbp-0E0h],rax", "move", "rbp/64 rax/64", "", "", "memory/64"]),
        (&[0x01, 0x37], ["add [rdi],esi", "arithmetic", "rdi/64 esi/32", "flags8d5/6", "memory/32", "memory/32"]),
        (&[0xff, 0x00], ["inc dword ptr [rax]", "arithmetic", "rax/64", "flags8d4/5", "memory/32", "memory/32"]),
        (&[0x48, 0x39, 0xd8], ["cmp rax,rbx", "compare", "rax/64 rbx/64", "flags8d5/6", "", ""]),
        (&[0x75, 0x03], ["jne short 0000000000400005h", "branch", "flags40/1", "", "", ""]),
        (&[0x0f, 0x94, 0xc0], ["sete al", "compare", "flags40/1", "al/8", "", ""]),
        (&[0x50], ["push rax", "stack", "rax/64 rsp/64", "rsp/64", "", "memory/64"]),
        (&[0xff, 0x74, 0x24, 0x08], ["push qword ptr [rsp+8]", "stack", "rsp/64", "rsp/64", "memory/64", "memory/64"]),
        (&[0xff, 0xd0], ["call rax", "call", "rax/64 rsp/64", "rsp/64", "", "memory/64"]),
        (&[0xc3], ["ret", "call", "rsp/64", "rsp/64", "memory/64", ""]),
        (&[0x48, 0x8d, 0x44, 0xcb, 0x04], ["lea rax,[rbx+rcx*8+4]", "move", "rbx/64 rcx/64", "rax/64", "", ""]),
        (&[0xc5, 0xfe, 0x6f, 0x07], ["vmovdqu ymm0,[rdi]", "vector", "rdi/64", "ymm0/256", "memory/256", ""]),
        (&[0x62, 0xe1, 0xfe, 0x48, 0x7f, 0x0f], ["vmovdqu64 [rdi],zmm17", "vector", "rdi/64 zmm17/512", "", "", "memory/512"]),
        (&[0xf3, 0x48, 0xa5], ["rep movsq [rdi],[rsi]", "string", "rcx/64 rdi/64 rsi/64", "rcx/64 rdi/64 rsi/64", "memory/64", "memory/64"]),
        (&[0xf2, 0xae], ["repne scasb [rdi]", "string", "al/8 rcx/64 rdi/64", "rcx/64 rdi/64", "memory/8", ""]),
        (&[0x0f, 0x05], ["syscall", "system", "rax/64 rdi/64 rsi/64 rdx/64 r10/64 r8/64 r9/64", "rcx/64 r11/64 rax/64", "", ""]),
        (&[0x31, 0xc0], ["xor eax,eax", "logic", "", "rax/64", "", ""]),
        (&[0xdb, 0x28], ["fld st,tbyte ptr [rax]", "other", "rax/64", "", "memory/80", ""]),
        // excluded: memory whose address depends on data
        (&[0x48, 0x0f, 0xab, 0x08], ["bts [rax],rcx", "logic", "rax/64 rcx/64", "flags895/5", "", ""]),
        (&[0x0f, 0xae, 0x20], ["xsave [rax]", "system", "rax/64 edx/32", "", "", ""]),
        (&[0xc5, 0xf8, 0x77], ["vzeroupper", "vector", "", "", "", ""]),
    ];
    for (code, [text, class, read, written, loaded, stored]) in known {
        let instruction = decoded(code);
        assert_eq!((instruction.text().as_str(), instruction.class()), (*text, *class));
        let found = [Rreg, Wreg, Rval, Wval].map(|kind| operands(&instruction, kind));
        assert_eq!(found, [read, written, loaded, stored].map(|text| text.to_string()), "{text}");
        assert_eq!(instruction.operands(Raddr), instruction.operands(Rval));
        assert_eq!(instruction.operands(Waddr), instruction.operands(Wval));
        assert_eq!((instruction.width(Cf, 0), instruction.width(Text, 0)), (64, 8 * code.len() as u32));
    }
}

#[test]
fn flow_is_that_of_the_processor() {
    let flow = |code: &[u8]| decoded(code).flow();
    assert_eq!(flow(&[0xeb, 0xfe]), ControlFlow::Jump(IP));
    assert_eq!(flow(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), ControlFlow::Call(IP));
    assert_eq!(flow(&[0xc2, 8, 0]), ControlFlow::Return(8));
    assert_eq!(flow(&[0xff, 0x20]), ControlFlow::IndirectJump);
    assert_eq!(flow(&[0x3e, 0xff, 0xe0]), ControlFlow::IndirectJump);
    assert_eq!(flow(&[0xff, 0x50, 8]), ControlFlow::IndirectCall);
    assert_eq!(flow(&[0x0f, 0x05]), ControlFlow::Syscall);
    assert_eq!(flow(&[0xf3, 0xa4]), ControlFlow::Repeated);
    assert_eq!(flow(&[0xa4]), ControlFlow::Next);
    for next in [&[0x0f, 0xa2][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xf3, 0x90], &[0xf3, 0x0f, 0x10, 0x00]] {
        assert_eq!(flow(next), ControlFlow::Next, "{}", decoded(next).text());
    }
    for stepped in [
        &[0xe2, 0xfe][..],
        &[0xe3, 0xfe],
        &[0xcc],
        &[0xf4],
        &[0x0f, 0x0b],
        &[0x48, 0xcf],
        &[0xcd, 0x80],
        &[0xc7, 0xf8, 0, 0, 0, 0],
        &[0x66, 0xc3],
        &[0x8e, 0xd0],
        &[0x0f, 0x34],
        &[0x0f, 0x31],
        &[0x0f, 0x01, 0xf9],
        &[0xff, 0x28],
    ] {
        assert_eq!(flow(stepped), ControlFlow::Other, "{}", decoded(stepped).text());
    }
}

/// All sixteen conditions over all flags, against their definition by the bits of the opcode.
#[test]
fn conditions_follow_their_opcodes() {
    for opcode in 0x70..=0x7fu8 {
        let ControlFlow::Conditional(condition, target) = decoded(&[opcode, 0x10]).flow() else {
            panic!("a jump on a condition")
        };
        assert_eq!(target, IP + 0x12);
        for flags in 0..0x1000u64 {
            let [carry, parity, zero, sign, overflow] = [0, 2, 6, 7, 11].map(|position| flags >> position & 1 == 1);
            let base = [overflow, carry, zero, carry | zero, sign, parity, sign ^ overflow, zero | (sign ^ overflow)]
                [usize::from(opcode >> 1 & 7)];
            assert_eq!(condition.holds(flags), base ^ (opcode & 1 == 1), "{opcode:#x} {flags:#x}");
        }
    }
}

#[test]
fn a_repetition_without_iterations_reads_only_its_counter() {
    let instruction = decoded(&[0xf2, 0xae]);
    let counter = instruction.idle_operand(Rreg).expect("its counter");
    assert_eq!(operands(&instruction, Rreg).split(' ').nth(counter.into()), Some("rcx/64"));
    assert_eq!(instruction.idle_operand(Cf), Some(0));
    for kind in [Wreg, Wval, Waddr, Raddr, Rval] {
        assert_eq!(instruction.idle_operand(kind), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_decoded_without_panic(ip: u64, code in prop::collection::vec(any::<u8>(), 0..=20)) {
        let Some(instruction) = Instruction::decode(ip, &code) else { return Ok(()) };
        prop_assert!((1..=15).contains(&instruction.length()));
        prop_assert!(!instruction.text().is_empty() && !instruction.class().is_empty());
        for kind in FlipType::ALL {
            let count = instruction.operands(kind);
            prop_assert_eq!(instruction.eligible(kind), count > 0);
            prop_assert!(count < 40);
            prop_assert!(instruction.operand(kind, count).is_none());
            for number in 0..count {
                prop_assert!((1..=512).contains(&instruction.width(kind, number)));
            }
        }
        let registers = unused();
        for memory in instruction.memory() {
            prop_assert!(memory.address(&registers).is_some());
        }
    }
}

/// No process is needed to compute an address.
#[rustfmt::skip]
fn unused() -> sandbox::tracee::Registers {
    sandbox::tracee::Registers {
        r15: 0, r14: 0, r13: 0, r12: 0, rbp: 0, rbx: 0, r11: 0, r10: 0, r9: 0, r8: 0, rax: 0, rcx: 0, rdx: 0, rsi: 0, rdi: 0,
        orig_rax: 0, rip: 0, cs: 0, eflags: 0, rsp: 0, ss: 0, fs_base: 0, gs_base: 0, ds: 0, es: 0, fs: 0, gs: 0,
    }
}
