//! Where an instruction goes next, for a stepper that emulates branches.

use iced_x86::{Code, ConditionCode, FlowControl, OpKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFlow {
    /// The following instruction, or a signal.
    Next,
    Jump(u64),
    /// To the target if [`Condition::holds`], otherwise to the following instruction.
    Conditional(Condition, u64),
    /// Pushes the address of the following instruction.
    Call(u64),
    /// Pops its target, then this many further bytes.
    Return(u16),
    /// To [`Instruction::target`](crate::processor::instruction::Instruction::target).
    IndirectJump,
    /// To [`Instruction::target`](crate::processor::instruction::Instruction::target), which is read before the return
    /// address is pushed.
    IndirectCall,
    Syscall,
    /// A string instruction with a repeat prefix: one trap per iteration.
    Repeated,
    /// Must be stepped: `loop`, `jrcxz`, transactions, interrupts, far branches, privileged and undefined ones.
    Other,
}

/// When a conditional jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition(ConditionCode);

impl Condition {
    /// The number of the condition in a jump's opcode.
    pub fn number(self) -> u8 {
        // the enumeration begins with the absence of a condition and follows the processor's order
        (self.0 as u8).saturating_sub(1)
    }

    pub fn holds(self, flags: u64) -> bool {
        let flag = |bit: u32| flags >> bit & 1 == 1;
        let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
        match self.0 {
            ConditionCode::None => true,
            ConditionCode::o => overflow,
            ConditionCode::no => !overflow,
            ConditionCode::b => carry,
            ConditionCode::ae => !carry,
            ConditionCode::e => zero,
            ConditionCode::ne => !zero,
            ConditionCode::be => carry || zero,
            ConditionCode::a => !carry && !zero,
            ConditionCode::s => sign,
            ConditionCode::ns => !sign,
            ConditionCode::p => parity,
            ConditionCode::np => !parity,
            ConditionCode::l => sign != overflow,
            ConditionCode::ge => sign == overflow,
            ConditionCode::le => zero || sign != overflow,
            ConditionCode::g => !zero && sign == overflow,
        }
    }
}

pub(crate) fn of(decoded: &iced_x86::Instruction, code: &[u8]) -> ControlFlow {
    // processor vendors disagree on branches with an operand size prefix
    let branches = decoded.flow_control() != FlowControl::Next;
    if decoded.is_privileged() || branches && has_operand_size_prefix(code) {
        return ControlFlow::Other;
    }
    let near = decoded.op0_kind() == OpKind::NearBranch64;
    match decoded.flow_control() {
        FlowControl::Next if decoded.is_string_instruction() && repeated(decoded) => ControlFlow::Repeated,
        // the processor delays the trap by one instruction
        FlowControl::Next if writes_stack_segment(decoded) => ControlFlow::Other,
        // it traps and is emulated
        FlowControl::Next if matches!(decoded.code(), Code::Rdtsc | Code::Rdtscp) => ControlFlow::Other,
        FlowControl::Next => ControlFlow::Next,
        FlowControl::UnconditionalBranch if near => ControlFlow::Jump(decoded.near_branch_target()),
        FlowControl::ConditionalBranch if near && decoded.is_jcc_short_or_near() => {
            ControlFlow::Conditional(Condition(decoded.condition_code()), decoded.near_branch_target())
        }
        FlowControl::Call if decoded.code() == Code::Syscall => ControlFlow::Syscall,
        FlowControl::Call if near => ControlFlow::Call(decoded.near_branch_target()),
        FlowControl::Return if decoded.code() == Code::Retnq => ControlFlow::Return(0),
        FlowControl::Return if decoded.code() == Code::Retnq_imm16 => ControlFlow::Return(decoded.immediate16()),
        FlowControl::IndirectBranch if decoded.code() == Code::Jmp_rm64 => ControlFlow::IndirectJump,
        FlowControl::IndirectCall if decoded.code() == Code::Call_rm64 => ControlFlow::IndirectCall,
        _ => ControlFlow::Other,
    }
}

fn repeated(decoded: &iced_x86::Instruction) -> bool {
    decoded.has_rep_prefix() || decoded.has_repne_prefix()
}

/// Whether an operand size prefix is among those before the opcode.
fn has_operand_size_prefix(code: &[u8]) -> bool {
    let prefix = |byte: &&u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    code.iter().take_while(prefix).any(|&byte| byte == 0x66)
}

fn writes_stack_segment(decoded: &iced_x86::Instruction) -> bool {
    decoded.op0_kind() == OpKind::Register && decoded.op0_register() == iced_x86::Register::SS
}
