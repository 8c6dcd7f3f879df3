//! Instructions, and for each of their addresses the effect of a wrong one, written with other instructions.
//!
//! In an oracle, r15 and rbp hold the wrong address (rbp where the stack segment is used), r13 the address behind the
//! instruction, r14 is free. Of repeated instructions r12 is the number of iterations before, r11 the negative of one
//! more, r10 the step of an address. An oracle neither swaps memory nor reads mappings: it accesses the wrong address.

use crate::scratch::code;
use model::flip::FlipType::{self, Raddr, Waddr};
use sandbox::tracee::Registers;

pub type Address = fn(&Registers) -> u64;

pub struct Shape {
    pub text: &'static str,
    pub code: &'static [u8],
    pub addresses: Vec<(FlipType, usize, Address, &'static [u8])>,
    /// Pointers must be multiples of it.
    pub align: u64,
    /// Memory and rax hold addresses of code.
    pub jumps: bool,
    /// rbp is an operand of its own.
    pub frame: bool,
    pub repeated: bool,
    /// The mask register's name is k1.
    pub masked: bool,
    pub needs: Needs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    Nothing,
    Avx2,
    Avx512,
}

impl Needs {
    pub fn present() -> Needs {
        match () {
            () if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") => Needs::Avx512,
            () if is_x86_feature_detected!("avx2") => Needs::Avx2,
            () => Needs::Nothing,
        }
    }
}

macro_rules! shape {
    ($text:literal $(, $kind:ident $operand:literal $address:expr => $($oracle:literal),+)*) => {
        Shape {
            text: $text,
            code: code!($text),
            addresses: vec![$(($kind, $operand, $address, code!($($oracle),+))),*],
            align: 1, jumps: false, frame: false, repeated: false, masked: false, needs: Needs::Nothing,
        }
    };
}

pub fn all() -> Vec<Shape> {
    [moves(), arithmetic(), stack(), calls(), vectors(), strings()].into_iter().flatten().collect()
}

fn moves() -> Vec<Shape> {
    vec![
        shape!("mov rax, [rbx+rcx*8+16]", Raddr 0 |r| r.rbx + r.rcx * 8 + 16 => "mov rax, [r15]"),
        shape!("mov [rbx+rcx*8-24], rax", Waddr 0 |r| r.rbx + r.rcx * 8 - 24 => "mov [r15], rax"),
        shape!("mov rdi, [rdi]", Raddr 0 |r| r.rdi => "mov rdi, [r15]"),
        shape!("movzx eax, byte ptr [rdi]", Raddr 0 |r| r.rdi => "movzx eax, byte ptr [r15]"),
        shape!("mov ah, [rdi]", Raddr 0 |r| r.rdi => "mov r14b, [r15]", "xchg rcx, r14", "mov ah, cl", "xchg rcx, r14"),
        shape!("mov word ptr [rdi], dx", Waddr 0 |r| r.rdi => "mov word ptr [r15], dx"),
        shape!("mov eax, [edi]", Raddr 0 |r| r.rdi => "mov eax, [r15]"),
        shape!("mov rax, [rip+0x8100]", Raddr 0 |r| r.r13 + 0x8100 => "mov rax, [r15]"),
        shape!("mov [rip+0x8123], rax", Waddr 0 |r| r.r13 + 0x8123 => "mov [r15], rax"),
        shape!("mov rax, fs:[0x28]", Raddr 0 |r| r.fs_base + 0x28 => "mov rax, [r15]"),
        shape!("mov fs:[0x30], rax", Waddr 0 |r| r.fs_base + 0x30 => "mov [r15], rax"),
        shape!("cmovne rax, [rdi]", Raddr 0 |r| r.rdi => "cmovne rax, [r15]"),
        shape!("sete [rdi]", Waddr 0 |r| r.rdi => "sete [r15]"),
        shape!("movbe rax, [rdi]", Raddr 0 |r| r.rdi => "movbe rax, [r15]"),
        shape!("movnti [rdi], rax", Waddr 0 |r| r.rdi => "movnti [r15], rax"),
        shape!("xchg [rdi], rax",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "mov [rdi], rax", "mov rax, r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "mov [r15], rax", "mov rax, r14"),
        shape!("lea rax, [rbx+rcx*8+4]"),
        shape!("mov eax, edx"),
        shape!("mov ah, dl"),
        shape!("cmovb rax, rdx"),
        shape!("bswap rdx"),
        Shape {
            frame: true,
            ..shape!("mov [rbp-0x20], rax", Waddr 0 |r| r.rbp - 0x20 => "mov r14, rbp", "mov rbp, r15", "mov [rbp], rax", "mov rbp, r14")
        },
        Shape {
            frame: true,
            ..shape!("mov rax, [rbp+rcx*4]", Raddr 0 |r| r.rbp + r.rcx * 4 => "mov r14, rbp", "mov rbp, r15", "mov rax, [rbp]", "mov rbp, r14")
        },
    ]
}

fn arithmetic() -> Vec<Shape> {
    vec![
        shape!("add [rdi], rsi",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "add r14, rsi", "mov [rdi], r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "add r14, rsi", "mov [r15], r14"),
        shape!("add qword ptr [rip+0x8321], 5",
            Raddr 0 |r| r.r13 + 0x8321 => "mov r14, [r15]", "add r14, 5", "mov [r13+0x8321], r14",
            Waddr 0 |r| r.r13 + 0x8321 => "mov r14, [r13+0x8321]", "add r14, 5", "mov [r15], r14"),
        shape!("inc dword ptr [rdi]",
            Raddr 0 |r| r.rdi => "mov r14d, [r15]", "inc r14d", "mov [rdi], r14d",
            Waddr 0 |r| r.rdi => "mov r14d, [rdi]", "inc r14d", "mov [r15], r14d"),
        shape!("adc [rdi], rcx",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "adc r14, rcx", "mov [rdi], r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "adc r14, rcx", "mov [r15], r14"),
        shape!("lock xadd [rdi], rdx",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "xadd r14, rdx", "mov [rdi], r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "xadd r14, rdx", "mov [r15], r14"),
        shape!("lock cmpxchg [rdi], rcx",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "cmpxchg r14, rcx", "mov [rdi], r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "cmpxchg r14, rcx", "mov [r15], r14"),
        shape!("shl qword ptr [rdi], cl",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "shl r14, cl", "mov [rdi], r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "shl r14, cl", "mov [r15], r14"),
        shape!("bts qword ptr [rdi], 3",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "bts r14, 3", "mov [rdi], r14",
            Waddr 0 |r| r.rdi => "mov r14, [rdi]", "bts r14, 3", "mov [r15], r14"),
        shape!("not byte ptr [rdi]",
            Raddr 0 |r| r.rdi => "mov r14b, [r15]", "not r14b", "mov [rdi], r14b",
            Waddr 0 |r| r.rdi => "mov r14b, [rdi]", "not r14b", "mov [r15], r14b"),
        shape!("cmp [rdi], rax", Raddr 0 |r| r.rdi => "cmp [r15], rax"),
        shape!("test byte ptr [rdi], 5", Raddr 0 |r| r.rdi => "test byte ptr [r15], 5"),
        shape!("imul rax, [rdi]", Raddr 0 |r| r.rdi => "imul rax, [r15]"),
        shape!("mul dword ptr [rdi]", Raddr 0 |r| r.rdi => "mul dword ptr [r15]"),
        shape!("div dword ptr [rdi]", Raddr 0 |r| r.rdi => "div dword ptr [r15]"),
        shape!("imul rax, rdx, 77"),
        shape!("add rax, rdx"),
        shape!("cmp rax, rdx"),
        shape!("test al, al"),
        shape!("sete cl"),
        shape!("xor eax, eax"),
    ]
}

fn stack() -> Vec<Shape> {
    vec![
        shape!("push rax", Waddr 0 |r| r.rsp - 8 => "mov [rbp], rax", "lea rsp, [rsp-8]"),
        shape!("push rsp", Waddr 0 |r| r.rsp - 8 => "mov [rbp], rsp", "lea rsp, [rsp-8]"),
        shape!("push qword ptr [rdi]",
            Raddr 0 |r| r.rdi => "push qword ptr [r15]",
            Waddr 0 |r| r.rsp - 8 => "mov r14, [rdi]", "mov [rbp], r14", "lea rsp, [rsp-8]"),
        shape!("push qword ptr [rsp-8]",
            Raddr 0 |r| r.rsp - 8 => "push qword ptr [rbp]",
            Waddr 0 |r| r.rsp - 8 => "mov r14, [rsp-8]", "mov [rbp], r14", "lea rsp, [rsp-8]"),
        shape!("push qword ptr [rsp-12]",
            Raddr 0 |r| r.rsp - 12 => "push qword ptr [rbp]"),
        shape!("pop rax", Raddr 0 |r| r.rsp => "mov rax, [rbp]", "lea rsp, [rsp+8]"),
        shape!("pop rsp", Raddr 0 |r| r.rsp => "mov rsp, [rbp]"),
        shape!("pop qword ptr [rdi]",
            Raddr 0 |r| r.rsp => "mov r14, [rbp]", "mov [rdi], r14", "lea rsp, [rsp+8]",
            Waddr 0 |r| r.rdi => "mov r14, [rsp]", "mov [r15], r14", "lea rsp, [rsp+8]"),
        shape!("pop qword ptr [rsp-4]",
            Raddr 0 |r| r.rsp => "mov r14, [rbp]", "mov [rsp+4], r14", "lea rsp, [rsp+8]",
            Waddr 0 |r| r.rsp + 4 => "mov r14, [rsp]", "mov [rbp], r14", "lea rsp, [rsp+8]"),
        shape!("pushfq", Waddr 0 |r| r.rsp - 8 =>
            "mov r15, rsp", "mov rsp, 0x2001fff0", "pushfq", "pop r14", "mov rsp, r15", "mov [rbp], r14", "lea rsp, [rsp-8]", "mov r15, rbp"),
        Shape {
            frame: true,
            ..shape!("leave", Raddr 0 |r| r.rbp =>
            "mov r14, rbp", "mov rbp, r15", "mov rbp, [rbp]", "lea rsp, [r14+8]")
        },
        Shape {
            frame: true,
            ..shape!("enter 16, 0", Waddr 0 |r| r.rsp - 8 =>
            "mov r14, rbp", "mov rbp, r15", "mov [rbp], r14", "lea rbp, [rsp-8]", "lea rsp, [rsp-24]")
        },
    ]
}

fn calls() -> Vec<Shape> {
    let jumps = vec![
        shape!("call rax", Waddr 0 |r| r.rsp - 8 => "mov [rbp], r13", "lea rsp, [rsp-8]", "jmp rax"),
        shape!("call [rdi]",
            Raddr 0 |r| r.rdi => "mov r14, [r15]", "lea rsp, [rsp-8]", "mov [rsp], r13", "jmp r14",
            Waddr 0 |r| r.rsp - 8 => "mov r14, [rdi]", "mov [rbp], r13", "lea rsp, [rsp-8]", "jmp r14"),
        shape!("jmp [rdi]", Raddr 0 |r| r.rdi => "jmp [r15]"),
        shape!("jmp rax"),
        shape!("ret", Raddr 0 |r| r.rsp => "mov r14, [rbp]", "lea rsp, [rsp+8]", "jmp r14"),
        shape!("ret 16", Raddr 0 |r| r.rsp => "mov r14, [rbp]", "lea rsp, [rsp+24]", "jmp r14"),
    ];
    let mut all: Vec<Shape> = jumps.into_iter().map(|shape| Shape { jumps: true, align: 8, ..shape }).collect();
    all.push(shape!("call 24f; 24:", Waddr 0 |r| r.rsp - 8 => "mov [rbp], r13", "lea rsp, [rsp-8]"));
    all.push(shape!("jne 24f; 24:"));
    all
}

fn vectors() -> Vec<Shape> {
    let aligned = |align, shape| Shape { align, ..shape };
    let needs = |needs, shape| Shape { needs, ..shape };
    let masked = |shape| Shape { masked: true, needs: Needs::Avx512, ..shape };
    vec![
        aligned(16, shape!("movaps xmm0, [rdi]", Raddr 0 |r| r.rdi => "movaps xmm0, [r15]")),
        aligned(16, shape!("movaps [rdi], xmm1", Waddr 0 |r| r.rdi => "movaps [r15], xmm1")),
        aligned(16, shape!("addps xmm2, [rdi]", Raddr 0 |r| r.rdi => "addps xmm2, [r15]")),
        aligned(16, shape!("pxor xmm3, [rdi+16]", Raddr 0 |r| r.rdi + 16 => "pxor xmm3, [r15]")),
        aligned(16, shape!("lock cmpxchg16b [rdi]")),
        shape!("movups xmm0, [rdi]", Raddr 0 |r| r.rdi => "movups xmm0, [r15]"),
        shape!("movups [rdi], xmm1", Waddr 0 |r| r.rdi => "movups [r15], xmm1"),
        shape!("movsd xmm0, [rdi]", Raddr 0 |r| r.rdi => "movsd xmm0, [r15]"),
        shape!("movhps [rdi], xmm5", Waddr 0 |r| r.rdi => "movhps [r15], xmm5"),
        shape!("pcmpistri xmm0, [rdi], 8", Raddr 0 |r| r.rdi => "pcmpistri xmm0, [r15], 8"),
        shape!("pxor xmm9, xmm10"),
        shape!("movq rax, xmm11"),
        Shape {
            code: code!("fld qword ptr [rdi]", "fstp qword ptr [rbx]"),
            ..shape!("fld qword ptr [rdi]", Raddr 0 |r| r.rdi => "fld qword ptr [r15]", "fstp qword ptr [rbx]")
        },
        Shape {
            code: code!("fst dword ptr [rdi]", "fld1"),
            ..shape!("fst dword ptr [rdi]", Waddr 0 |r| r.rdi => "fst dword ptr [r15]", "fld1")
        },
        needs(Needs::Avx2, shape!("vmovdqu xmm12, [rdi]", Raddr 0 |r| r.rdi => "vmovdqu xmm12, [r15]")),
        needs(Needs::Avx2, shape!("vmovdqu ymm0, [rdi]", Raddr 0 |r| r.rdi => "vmovdqu ymm0, [r15]")),
        needs(Needs::Avx2, shape!("vmovdqu [rdi], ymm15", Waddr 0 |r| r.rdi => "vmovdqu [r15], ymm15")),
        needs(Needs::Avx2, aligned(32, shape!("vmovdqa [rdi], ymm7", Waddr 0 |r| r.rdi => "vmovdqa [r15], ymm7"))),
        needs(Needs::Avx2, shape!("vpaddd ymm1, ymm2, [rdi]", Raddr 0 |r| r.rdi => "vpaddd ymm1, ymm2, [r15]")),
        needs(Needs::Avx2, shape!("vpcmpeqb ymm3, ymm4, ymm5")),
        needs(Needs::Avx2, shape!("vpbroadcastb ymm8, [rdi]", Raddr 0 |r| r.rdi => "vpbroadcastb ymm8, [r15]")),
        needs(Needs::Avx512, shape!("vmovdqu64 zmm17, [rdi]", Raddr 0 |r| r.rdi => "vmovdqu64 zmm17, [r15]")),
        needs(Needs::Avx512, shape!("vmovdqu64 [rdi], zmm31", Waddr 0 |r| r.rdi => "vmovdqu64 [r15], zmm31")),
        needs(
            Needs::Avx512,
            aligned(64, shape!("vmovdqa64 zmm2, [rdi]", Raddr 0 |r| r.rdi => "vmovdqa64 zmm2, [r15]")),
        ),
        needs(
            Needs::Avx512,
            shape!("vpaddd zmm1, zmm22, [rdi]{{1to16}}", Raddr 0 |r| r.rdi => "vpaddd zmm1, zmm22, [r15]{{1to16}}"),
        ),
        needs(Needs::Avx512, shape!("vpxorq zmm5, zmm26, zmm7")),
        needs(Needs::Avx512, shape!("kaddq k3, k4, k5")),
        masked(shape!("vmovdqu8 zmm18{{k1}}{{z}}, [rdi]", Raddr 0 |r| r.rdi => "vmovdqu8 zmm18{{k1}}{{z}}, [r15]")),
        masked(shape!("vmovdqu8 [rdi]{{k1}}, zmm19", Waddr 0 |r| r.rdi => "vmovdqu8 [r15]{{k1}}, zmm19")),
        masked(shape!("vmovdqa32 [rdi]{{k1}}, ymm3", Waddr 0 |r| r.rdi => "vmovdqa32 [r15]{{k1}}, ymm3")),
        masked(shape!("vpcmpeqb k2{{k1}}, zmm1, [rdi]", Raddr 0 |r| r.rdi => "vpcmpeqb k2{{k1}}, zmm1, [r15]")),
    ]
}

fn strings() -> Vec<Shape> {
    let single = vec![
        shape!("movsb",
            Raddr 0 |r| r.rsi => "mov r14b, [r15]", "mov [rdi], r14b", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]",
            Waddr 0 |r| r.rdi => "mov r14b, [rsi]", "mov [r15], r14b", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]"),
        shape!("stosq", Waddr 0 |r| r.rdi => "mov [r15], rax", "lea rdi, [rdi+r10]"),
        shape!("lodsd", Raddr 0 |r| r.rsi => "mov eax, [r15]", "lea rsi, [rsi+r10]"),
        shape!("scasb", Raddr 0 |r| r.rdi => "cmp al, [r15]", "lea rdi, [rdi+r10]"),
        shape!("cmpsb",
            Raddr 0 |r| r.rsi => "mov r14b, [r15]", "cmp r14b, [rdi]", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]",
            Raddr 1 |r| r.rdi => "mov r14b, [rsi]", "cmp r14b, [r15]", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]"),
    ];
    let repeated = vec![
        shape!("rep movsb",
            Raddr 0 |r| r.rsi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "rep movsb", "lea rcx, [r14+r11]",
                "mov r14b, [r15]", "mov [rdi], r14b", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]", "rep movsb",
            Waddr 0 |r| r.rdi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "rep movsb", "lea rcx, [r14+r11]",
                "mov r14b, [rsi]", "mov [r15], r14b", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]", "rep movsb"),
        shape!("rep movsq",
            Raddr 0 |r| r.rsi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "rep movsq", "lea rcx, [r14+r11]",
                "mov r14, [r15]", "mov [rdi], r14", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]", "rep movsq"),
        shape!("rep stosq",
            Waddr 0 |r| r.rdi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "rep stosq", "lea rcx, [r14+r11]",
                "mov [r15], rax", "lea rdi, [rdi+r10]", "rep stosq"),
        shape!("repne scasb",
            Raddr 0 |r| r.rdi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "repne scasb", "lea rcx, [r14+r11]",
                "cmp al, [r15]", "lea rdi, [rdi+r10]", "je 24f", "jrcxz 24f", "repne scasb", "24:"),
        shape!("repe cmpsb",
            Raddr 0 |r| r.rsi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "repe cmpsb", "lea rcx, [r14+r11]",
                "mov r14b, [r15]", "cmp r14b, [rdi]", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]", "jne 24f", "jrcxz 24f", "repe cmpsb", "24:",
            Raddr 1 |r| r.rdi.wrapping_add(r.r10.wrapping_mul(r.r12)) => "mov r14, rcx", "mov rcx, r12", "repe cmpsb", "lea rcx, [r14+r11]",
                "mov r14b, [rsi]", "cmp r14b, [r15]", "lea rsi, [rsi+r10]", "lea rdi, [rdi+r10]", "jne 24f", "jrcxz 24f", "repe cmpsb", "24:"),
    ];
    single.into_iter().chain(repeated.into_iter().map(|shape| Shape { repeated: true, ..shape })).collect()
}
