//! The code that loads and stores all vector and mask registers, as wide as the processor has them.

use crate::scratch::{Scratch, code};
use crate::shapes::Needs;

pub fn scratch() -> Scratch {
    match Needs::present() {
        Needs::Avx512 => Scratch::new(
            code!(
                "fninit",
                "fld1",
                "mov eax, 0x2001e000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vmovdqu64 zmm\\n, [rax+64*\\n]",
                ".endr",
                ".irp n,0,1,2,3,4,5,6,7",
                "kmovq k\\n, [rax+2048+8*\\n]",
                ".endr"
            ),
            code!(
                "mov eax, 0x2001f000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vmovdqu64 [rax+64*\\n], zmm\\n",
                ".endr",
                ".irp n,0,1,2,3,4,5,6,7",
                "kmovq [rax+2048+8*\\n], k\\n",
                ".endr"
            ),
        ),
        Needs::Avx2 => Scratch::new(
            code!(
                "fninit",
                "fld1",
                "mov eax, 0x2001e000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu ymm\\n, [rax+64*\\n]",
                ".endr"
            ),
            code!(
                "mov eax, 0x2001f000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu [rax+64*\\n], ymm\\n",
                ".endr"
            ),
        ),
        Needs::Nothing => Scratch::new(
            code!(
                "fninit",
                "fld1",
                "mov eax, 0x2001e000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "movups xmm\\n, [rax+64*\\n]",
                ".endr"
            ),
            code!(
                "mov eax, 0x2001f000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "movups [rax+64*\\n], xmm\\n",
                ".endr"
            ),
        ),
    }
}
