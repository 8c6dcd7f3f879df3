//! Replies that take long to compute, by path. A reply is used again while the files of its run are the same.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Bytes of all kept replies. A view of 10^6 spans takes about 60 MB.
const BYTES_MAX: usize = 192 << 20;

/// The state of a run's files: their number, sizes and times, as one number.
pub(crate) type FilesVersion = u64;

#[derive(Default)]
pub(crate) struct Cache {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The most recently used one last.
    replies: VecDeque<(String, FilesVersion, Bytes)>,
    bytes: usize,
}

impl Cache {
    pub fn get(&self, path: &str, version: FilesVersion) -> Option<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.replies.iter().position(|(known, of, _)| known == path && *of == version)?;
        let reply = kept.replies.remove(at)?;
        let bytes = reply.2.clone();
        kept.replies.push_back(reply);
        Some(bytes)
    }

    /// Drops the least recently used replies if there are too many bytes.
    pub fn put(&self, path: &str, version: FilesVersion, reply: Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.replies.iter().position(|(known, ..)| known == path)
            && let Some(old) = kept.replies.remove(at)
        {
            kept.bytes -= old.2.len();
        }
        if reply.len() > BYTES_MAX {
            return;
        }
        kept.bytes += reply.len();
        kept.replies.push_back((path.to_owned(), version, reply));
        while kept.bytes > BYTES_MAX {
            let Some(old) = kept.replies.pop_front() else { break };
            kept.bytes -= old.2.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_used_again_until_its_run_changes() {
        let cache = Cache::default();
        cache.put("a", 1, Bytes::from_static(b"one"));
        assert_eq!(cache.get("a", 1).as_deref(), Some(&b"one"[..]));
        assert_eq!(cache.get("a", 2), None);
        cache.put("a", 2, Bytes::from_static(b"two"));
        assert_eq!((cache.get("a", 1), cache.get("a", 2).as_deref()), (None, Some(&b"two"[..])));
    }

    #[test]
    fn the_least_recently_used_reply_is_dropped_first() {
        let cache = Cache::default();
        let large = Bytes::from(vec![0; BYTES_MAX / 2]);
        cache.put("a", 1, large.clone());
        cache.put("b", 1, large.clone());
        assert!(cache.get("a", 1).is_some());
        cache.put("c", 1, large);
        assert!(cache.get("a", 1).is_some() && cache.get("b", 1).is_none() && cache.get("c", 1).is_some());
    }
}
