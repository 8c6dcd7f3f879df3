//! A coarse class per instruction, by which reports group injections.

use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

pub(crate) fn of(decoded: &iced_x86::Instruction) -> &'static str {
    match decoded.flow_control() {
        _ if decoded.is_privileged() => "system",
        _ if matches!(decoded.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Iretq) => "system",
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return => "call",
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::IndirectBranch => "branch",
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => "system",
        FlowControl::Next if decoded.is_string_instruction() => "string",
        FlowControl::Next if vector(decoded) => "vector",
        FlowControl::Next if matches!(decoded.mnemonic(), Mnemonic::Vzeroupper | Mnemonic::Vzeroall) => "vector",
        FlowControl::Next => of_plain(decoded.mnemonic()),
    }
}

fn vector(decoded: &iced_x86::Instruction) -> bool {
    let vector = |register: Register| register.is_vector_register() || register.is_k() || register.is_mm();
    (0..decoded.op_count())
        .any(|number| decoded.op_kind(number) == OpKind::Register && vector(decoded.op_register(number)))
}

fn of_plain(mnemonic: Mnemonic) -> &'static str {
    use Mnemonic::*;
    match mnemonic {
        Mov | Movzx | Movsx | Movsxd | Movbe | Movnti | Movdiri | Movdir64b | Lea | Xchg | Bswap | Xlatb | Cbw
        | Cwde | Cdqe | Cwd | Cdq | Cqo | Lahf | Sahf | Cmova | Cmovae | Cmovb | Cmovbe | Cmove | Cmovg | Cmovge
        | Cmovl | Cmovle | Cmovne | Cmovno | Cmovnp | Cmovns | Cmovo | Cmovp | Cmovs => "move",
        Add | Adc | Adcx | Adox | Sub | Sbb | Inc | Dec | Neg | Mul | Mulx | Imul | Div | Idiv | Xadd | Crc32 => {
            "arithmetic"
        }
        And | Andn | Or | Xor | Not | Shl | Shr | Sar | Sal | Shld | Shrd | Shlx | Shrx | Sarx | Rol | Ror | Rorx
        | Rcl | Rcr | Bts | Btr | Btc | Bsf | Bsr | Tzcnt | Lzcnt | Popcnt | Bextr | Blsi | Blsmsk | Blsr | Bzhi
        | Pdep | Pext => "logic",
        Cmp | Test | Bt | Cmpxchg | Cmpxchg8b | Cmpxchg16b | Seta | Setae | Setb | Setbe | Sete | Setg | Setge
        | Setl | Setle | Setne | Setno | Setnp | Setns | Seto | Setp | Sets => "compare",
        Push | Pop | Pushfq | Popfq | Pushf | Popf | Enter | Leave => "stack",
        Cpuid | Rdtsc | Rdtscp | Rdpid | Rdrand | Rdseed | Rdpkru | Wrpkru | Xgetbv | Xsave | Xsave64 | Xsavec
        | Xsavec64 | Xsaveopt | Xsaveopt64 | Xrstor | Xrstor64 | Fxsave | Fxsave64 | Fxrstor | Fxrstor64 | Rdfsbase
        | Rdgsbase | Wrfsbase | Wrgsbase | Xabort | Mfence | Lfence | Sfence | Serialize | Clflush | Clflushopt
        | Clwb => "system",
        _ => "other",
    }
}
