//! Allocator settings for a daemon that runs for months and collects once per second: memory of a collection returns to
//! the system.
#![expect(unsafe_code, reason = "mallopt(3) and malloc_trim(3) are C functions")]

/// Larger allocations are mapped separately and return to the system when freed.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: i32 = 128 * 1024;

/// Makes all threads share one heap and keeps large allocations out of it. Call it before starting threads. Does
/// nothing with an allocator other than glibc's.
pub fn limit_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: all arguments are integers. A rejected setting changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // otherwise glibc raises the threshold with every large allocation that is freed
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
    }
}

/// Returns free heap pages to the system. Takes some milliseconds if there are many.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the argument is an integer. Memory in use is not moved.
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
    fn freed_memory_between_kept_allocations_is_returned() {
        limit_heap();
        // small allocations with some kept in between, so that shrinking the end of the heap is not enough
        let mut pieces: Vec<Option<Vec<u8>>> = (0..20_000).map(|_| Some(vec![1u8; 4_096])).collect();
        let full = resident_pages();
        pieces.iter_mut().enumerate().filter(|(n, _)| n % 100 != 0).for_each(|(_, piece)| *piece = None);
        trim();
        let left = resident_pages();
        assert!(left + 10_000 < full, "{full} pages, then {left}");
        assert!(pieces.iter().flatten().all(|piece| piece.iter().all(|byte| *byte == 1)));
    }
}
