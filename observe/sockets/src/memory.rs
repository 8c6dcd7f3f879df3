//! Memory of a program that runs for months and looks for a moment each second: what a look takes goes back to the system.
#![expect(unsafe_code, reason = "settings of the C library's allocator are made by numbers")]

/// Larger pieces are mapped by themselves, and go back as soon as they are freed.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: i32 = 128 * 1024;

/// Lets all threads share one heap, and large pieces stay outside of it. To be called before threads are started; does
/// nothing with an allocator other than that of the GNU C library.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: numbers only. A setting that is refused changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // without this the bound grows with every large piece that is freed
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
    }
}

/// Gives free pages of the heap back to the system: some milliseconds if there are many, next to nothing otherwise.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number. What is in use stays where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident_pages() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_was_freed_between_what_is_kept_goes_back() {
        keep_small();
        // in small pieces, with some kept in between, so that the end of the heap cannot simply be cut off
        let mut pieces: Vec<Option<Vec<u8>>> = (0..20_000).map(|_| Some(vec![1u8; 4_096])).collect();
        let full = resident_pages();
        pieces.iter_mut().enumerate().filter(|(n, _)| n % 100 != 0).for_each(|(_, piece)| *piece = None);
        give_back();
        let left = resident_pages();
        assert!(left + 10_000 < full, "{full} pages, then {left}");
        assert!(pieces.iter().flatten().all(|piece| piece.iter().all(|byte| *byte == 1)));
    }
}
