//! Allocator settings for a daemon that runs for months and collects once per second: memory of a collection returns to
//! the system.
#![expect(unsafe_code, reason = "mallopt(3), malloc_trim(3) and madvise(2) are C functions")]

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

/// Unmaps the code of this program. Code that runs again is mapped again from the page cache, without what only the
/// start needs: the parser of arguments, the loader of eBPF programs. Call it after the start, not often, because it
/// causes page faults.
pub fn release_code() {
    let (Ok(maps), Ok(program)) = (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    let program = program.to_string_lossy();
    for (start, length) in maps.lines().filter_map(|line| code(line, &program)) {
        // SAFETY: the range is a mapping of a file, not writable, so its pages have the content of the file. An access
        // maps the page again. Nothing else is affected, and an error changes nothing.
        unsafe {
            libc::madvise(std::ptr::with_exposed_provenance_mut(start), length, libc::MADV_DONTNEED);
        }
    }
}

/// Start and length of a mapping of the program's code.
fn code(line: &str, program: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let is_code = rest.starts_with("r-xp ") && rest.ends_with(program);
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    is_code.then_some((start, end - start))
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident_pages() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn resident_code_kb() -> usize {
        let (maps, program) = (std::fs::read_to_string("/proc/self/smaps").unwrap(), std::env::current_exe().unwrap());
        let program = program.to_string_lossy();
        let mut mappings = maps.split("VmFlags:");
        let mapping = mappings.find(|mapping| mapping.lines().any(|line| code(line, &program).is_some())).unwrap();
        let line = mapping.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn code_that_does_not_run_again_is_unmapped() {
        let before = resident_code_kb();
        release_code();
        let after = resident_code_kb();
        assert!(after < before, "{before} kB, then {after}");
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
