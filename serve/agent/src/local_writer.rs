//! Writes windows to this host's own store. Windows that cannot be written wait in memory.

use crate::retry_queue::{Attempt, Delivery, Inbox, MemoryQueue, retry_queue};
use crate::stores::WindowStore;
use flows::Window;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of waiting flows: about 50 MB.
const WAITING_FLOWS_MAX: usize = 100_000;

pub struct LocalWriter<S> {
    inbox: Inbox,
    delivery: Delivery<S>,
    failures: Arc<AtomicU64>,
    /// Time of the next attempt after a failure.
    retry_at: Instant,
    write_time: Duration,
}

impl<S: WindowStore> LocalWriter<S> {
    pub fn new(store: S) -> LocalWriter<S> {
        let (inbox, delivery) = retry_queue(MemoryQueue::new(WAITING_FLOWS_MAX), store, "this host's store", None);
        let failures = delivery.failures();
        LocalWriter { inbox, delivery, failures, retry_at: Instant::now(), write_time: Duration::ZERO }
    }

    pub fn store(&mut self) -> &mut S {
        self.delivery.store()
    }

    /// Queues a window and writes the queue, unless it waits after a failure. Returns messages for the operator.
    pub async fn write(&mut self, window: Window) -> Vec<String> {
        // first the waiting windows, because a full queue would drop the oldest
        let mut messages = self.flush_if_due().await;
        messages.extend(self.inbox.enqueue(window));
        messages.extend(self.flush_if_due().await);
        messages
    }

    async fn flush_if_due(&mut self) -> Vec<String> {
        if Instant::now() >= self.retry_at { self.flush().await } else { Vec::new() }
    }

    /// Writes the queue now. Returns messages for the operator.
    pub async fn flush(&mut self) -> Vec<String> {
        let start = Instant::now();
        let mut messages = Vec::new();
        loop {
            match self.delivery.deliver(&mut messages).await {
                Attempt::Progress => {}
                Attempt::Idle => break,
                Attempt::Retry(delay) => {
                    self.retry_at = Instant::now() + delay;
                    break;
                }
            }
        }
        self.write_time += start.elapsed();
        messages
    }

    pub fn lost(&self) -> u64 {
        self.inbox.lost()
    }

    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Total time spent on writing.
    pub fn write_time(&self) -> Duration {
        self.write_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{TestStore, window};

    fn sequences(writer: &mut LocalWriter<TestStore>) -> Vec<u64> {
        writer.store().sequences()
    }

    #[tokio::test]
    async fn a_rejected_window_does_not_block_others_and_counts_as_lost() {
        let store = TestStore::rejecting(&[2, 4]);
        let mut writer = LocalWriter::new(store.clone());
        assert_eq!(writer.write(window(1, 1)).await, [""; 0]);
        store.fail_with("no space left");
        for sequence in 2..=5 {
            writer.write(window(sequence, 1)).await;
        }
        store.recover();
        assert!(writer.flush().await[0].contains("rejects the content of a window"));
        assert_eq!((sequences(&mut writer), writer.lost()), (vec![1, 3, 5], 2));
        writer.retry_at = Instant::now();
        writer.write(window(6, 1)).await;
        assert_eq!(sequences(&mut writer), [1, 3, 5, 6]);
        assert_eq!(store.windows().last().unwrap().losses.windows, 2);
    }

    #[tokio::test]
    async fn a_full_disk_is_reported_once_and_loses_nothing_for_a_while() {
        let store = TestStore::default();
        let mut writer = LocalWriter::new(store.clone());
        assert_eq!(writer.write(window(1, 1)).await, [""; 0]);
        store.fail_with("no space left");
        assert_eq!(writer.write(window(2, 1)).await, ["error: no space left"]);
        for sequence in 3..20 {
            writer.retry_at = Instant::now();
            assert_eq!(writer.write(window(sequence, 1)).await, [""; 0]);
        }
        store.recover();
        assert!(writer.flush().await[0].contains("works again"));
        assert_eq!(sequences(&mut writer), (1..20).collect::<Vec<u64>>());
    }

    #[tokio::test]
    async fn windows_that_do_not_fit_are_counted_in_the_next_one() {
        let store = TestStore::default();
        let mut writer = LocalWriter::new(store.clone());
        store.fail_with("no space left");
        for sequence in 1..=5 {
            writer.write(window(sequence, WAITING_FLOWS_MAX / 2)).await;
        }
        assert_eq!(writer.lost(), 4);
        store.recover();
        writer.retry_at = Instant::now();
        writer.write(window(6, WAITING_FLOWS_MAX / 2)).await;
        let windows = store.windows();
        assert_eq!(windows.iter().map(|w| w.losses.windows).sum::<u64>(), 4);
        assert_eq!(
            store.sequences(),
            [5, 6],
            "a store that works again gets the waiting window before the next is queued"
        );
        assert_eq!(writer.lost(), 4);
    }
}
