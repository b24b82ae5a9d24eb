//! Copies and compares bytes in the place of musl's own functions, in the static binary for x86-64.
//!
//! Those copy with `rep movs`, which takes some 30 ns to begin, and compare byte by byte. Most of what we copy is the
//! cell of a table or the name of a file: a listing of thousands spent a sixth of its time in them. The ones here know
//! no instruction that not every such processor has. glibc's choose by the processor and need no help.

#![expect(unsafe_code, reason = "the compiler takes for granted what these two do")]

use std::arch::global_asm;

#[cfg(target_env = "musl")]
global_asm!(
    ".globl memcpy, memmove, memcmp, bcmp",
    ".set memcpy, baton_copy",
    ".set memmove, baton_copy",
    ".set memcmp, baton_compare",
    ".set bcmp, baton_compare",
);

// `memmove`: rdi takes rdx bytes from rsi, which may overlap it. Everything up to 128 bytes is loaded before any of it
// is stored, the longer ones go by blocks of 64 in the direction that overwrites nothing that is still to be read.
// Each length is covered by loads from both ends, which meet or overlap in the middle.
global_asm!(
    ".pushsection .text.baton_copy, \"ax\", @progbits",
    ".globl baton_copy",
    ".hidden baton_copy",
    ".type baton_copy, @function",
    ".p2align 5",
    "baton_copy:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 20f",
    "movups xmm0, [rsi]",
    "movups xmm3, [rsi + rdx - 16]",
    "cmp rdx, 32",
    "ja 40f",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm3",
    "ret",
    // 33 to 64
    "40:",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "cmp rdx, 64",
    "ja 41f",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "ret",
    // 65 to 128
    "41:",
    "movups xmm4, [rsi + 32]",
    "movups xmm5, [rsi + 48]",
    "movups xmm6, [rsi + rdx - 64]",
    "movups xmm7, [rsi + rdx - 48]",
    "cmp rdx, 128",
    "ja 42f",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm4",
    "movups [rdi + 48], xmm5",
    "movups [rdi + rdx - 64], xmm6",
    "movups [rdi + rdx - 48], xmm7",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "ret",
    "42:",
    "mov rcx, rdi",
    "sub rcx, rsi",
    "cmp rcx, rdx",
    "jb 44f",
    // From the first to the last, whose 64 bytes are held already.
    "lea r8, [rdi + rdx - 64]",
    "sub rdx, 64",
    "43:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm4, [rsi + 32]",
    "movups xmm5, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm4",
    "movups [rdi + 48], xmm5",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "ja 43b",
    "movups [r8], xmm6",
    "movups [r8 + 16], xmm7",
    "movups [r8 + 32], xmm2",
    "movups [r8 + 48], xmm3",
    "ret",
    // From the last to the first, whose 64 bytes are held already.
    "44:",
    "add rsi, rdx",
    "add rdi, rdx",
    "sub rdx, 64",
    "45:",
    "movups xmm2, [rsi - 16]",
    "movups xmm3, [rsi - 32]",
    "movups xmm6, [rsi - 48]",
    "movups xmm7, [rsi - 64]",
    "movups [rdi - 16], xmm2",
    "movups [rdi - 32], xmm3",
    "movups [rdi - 48], xmm6",
    "movups [rdi - 64], xmm7",
    "sub rsi, 64",
    "sub rdi, 64",
    "sub rdx, 64",
    "ja 45b",
    "movups [rax], xmm0",
    "movups [rax + 16], xmm1",
    "movups [rax + 32], xmm4",
    "movups [rax + 48], xmm5",
    "ret",
    // Fewer than 16
    "20:",
    "cmp edx, 8",
    "jb 21f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "21:",
    "cmp edx, 4",
    "jb 22f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    // The first, the middle and the last, which are the same of one.
    "22:",
    "test edx, edx",
    "jz 23f",
    "mov r10d, edx",
    "shr r10d, 1",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + r10]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], cl",
    "mov [rdi + r10], r8b",
    "mov [rdi + rdx - 1], r9b",
    "23:",
    "ret",
    ".size baton_copy, . - baton_copy",
    ".popsection",
);

// `memcmp`: the first of rdx bytes in which rdi and rsi differ decides.
global_asm!(
    ".pushsection .text.baton_compare, \"ax\", @progbits",
    ".globl baton_compare",
    ".hidden baton_compare",
    ".type baton_compare, @function",
    ".p2align 5",
    "baton_compare:",
    "cmp rdx, 16",
    "jb 34f",
    "30:",
    "movups xmm0, [rdi]",
    "movups xmm1, [rsi]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb ecx, xmm0",
    "xor ecx, 0xffff",
    "jnz 32f",
    "add rdi, 16",
    "add rsi, 16",
    "sub rdx, 16",
    "cmp rdx, 16",
    "jae 30b",
    "test rdx, rdx",
    "jz 31f",
    // The last sixteen, of which some are known to be equal.
    "lea rdi, [rdi + rdx - 16]",
    "lea rsi, [rsi + rdx - 16]",
    "movups xmm0, [rdi]",
    "movups xmm1, [rsi]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb ecx, xmm0",
    "xor ecx, 0xffff",
    "jnz 32f",
    "31:",
    "xor eax, eax",
    "ret",
    "32:",
    "bsf ecx, ecx",
    "33:",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx edx, byte ptr [rsi + rcx]",
    "sub eax, edx",
    "ret",
    // Fewer than 16: as numbers, the first byte the highest.
    "34:",
    "cmp edx, 8",
    "jb 35f",
    "mov rax, [rdi]",
    "mov rcx, [rsi]",
    "cmp rax, rcx",
    "jne 36f",
    "mov rax, [rdi + rdx - 8]",
    "mov rcx, [rsi + rdx - 8]",
    "cmp rax, rcx",
    "jne 36f",
    "xor eax, eax",
    "ret",
    "35:",
    "cmp edx, 4",
    "jb 37f",
    "mov eax, [rdi]",
    "mov ecx, [rsi]",
    "cmp eax, ecx",
    "jne 36f",
    "mov eax, [rdi + rdx - 4]",
    "mov ecx, [rsi + rdx - 4]",
    "cmp eax, ecx",
    "jne 36f",
    "xor eax, eax",
    "ret",
    "36:",
    "bswap rax",
    "bswap rcx",
    "cmp rax, rcx",
    "sbb eax, eax",
    "or eax, 1",
    "ret",
    "37:",
    "xor ecx, ecx",
    "38:",
    "cmp ecx, edx",
    "je 31b",
    "movzx eax, byte ptr [rdi + rcx]",
    "cmp al, [rsi + rcx]",
    "jne 33b",
    "inc ecx",
    "jmp 38b",
    ".size baton_compare, . - baton_compare",
    ".popsection",
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    unsafe extern "C" {
        fn baton_copy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
        fn baton_compare(one: *const u8, other: *const u8, len: usize) -> i32;
    }

    /// Every byte is told apart from its neighbours.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * 7 + n / 256).to_le_bytes()[0]).collect()
    }

    #[test]
    fn every_short_copy_is_whole_and_touches_nothing_else() {
        let source = bytes(700);
        for len in 0..600 {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 9), (17, 16)] {
                let mut target = vec![0xaa; 700];
                // SAFETY: both lie within their buffers.
                let end = unsafe { baton_copy(target[to..].as_mut_ptr(), source[from..].as_ptr(), len) };
                assert_eq!(end, target[to..].as_mut_ptr());
                assert_eq!(target[to..to + len], source[from..from + len], "{len}");
                assert!(target[..to].iter().chain(&target[to + len..]).all(|b| *b == 0xaa), "{len}");
            }
        }
    }

    #[test]
    fn what_overlaps_is_copied_as_it_was() {
        for len in (0..300).chain([1000, 4096, 4097]) {
            for shift in (-70_isize..70).step_by(3).chain([-900, -129, -128, -64, -1, 0, 1, 16, 64, 128, 900])
            {
                let mut ours = bytes(len + 2000);
                let mut theirs = ours.clone();
                let (from, to) = (1000, 1000_usize.strict_add_signed(shift));
                theirs.copy_within(from..from + len, to);
                let start = ours.as_mut_ptr();
                // SAFETY: both lie within the buffer.
                unsafe { baton_copy(start.add(to), start.add(from), len) };
                assert!(ours == theirs, "{len} bytes by {shift}");
            }
        }
    }

    fn compare(one: &[u8], other: &[u8]) -> std::cmp::Ordering {
        assert_eq!(one.len(), other.len());
        // SAFETY: both are so long.
        unsafe { baton_compare(one.as_ptr(), other.as_ptr(), one.len()) }.cmp(&0)
    }

    #[test]
    fn the_first_difference_decides_wherever_it_is() {
        for len in 0..200 {
            let one = bytes(len);
            assert_eq!(compare(&one, &one.clone()), std::cmp::Ordering::Equal, "{len}");
            for at in 0..len {
                for (other, after) in [(0_u8, 255_u8), (255, 0), (127, 128), (128, 127)] {
                    let mut changed = one.clone();
                    changed[at] = other;
                    if at + 1 < len {
                        changed[at + 1] = after;
                    }
                    assert_eq!(compare(&one, &changed), one.cmp(&changed), "{len} at {at}");
                    assert_eq!(compare(&changed, &one), changed.cmp(&one), "{len} at {at}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_compare_as_slices_do(one in prop::collection::vec(0_u8..3, 0..80), other in prop::collection::vec(0_u8..3, 0..80)) {
            let len = one.len().min(other.len());
            prop_assert_eq!(compare(&one[..len], &other[..len]), one[..len].cmp(&other[..len]));
        }
    }
}
