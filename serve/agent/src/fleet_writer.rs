//! Forwards windows to the fleet's store. Every window is first written to a spool on disk, so that neither an outage
//! of the database nor a killed agent loses one. The store ignores windows that it already has.

use crate::retry_queue::{Attempt, Delivery, Inbox, WindowQueue, retry_queue};
use crate::stores::WindowStore;
use flows::Window;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Time for the last deliveries when the agent stops; the remaining windows stay in the spool.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

pub struct FleetWriter {
    inbox: Inbox,
    failures: Arc<AtomicU64>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// Messages of the task for the operator.
    messages: Mutex<Vec<String>>,
    stopping: AtomicBool,
    wake: Notify,
}

impl Shared {
    fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

impl FleetWriter {
    /// Starts a task on the current tokio runtime. It first delivers windows that an earlier agent spooled.
    pub fn start(queue: impl WindowQueue + 'static, store: impl WindowStore + 'static) -> FleetWriter {
        let advice = Some("windows stay in the spool until the store works again");
        let (inbox, delivery) = retry_queue(queue, store, "the fleet's store", advice);
        let failures = delivery.failures();
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(deliver_all(shared.clone(), delivery));
        FleetWriter { inbox, failures, shared, task }
    }

    /// Spools a window. Returns messages for the operator.
    pub fn write(&mut self, window: Window) -> Vec<String> {
        let mut messages = self.shared.take_messages();
        messages.extend(self.inbox.enqueue(window));
        self.shared.wake.notify_one();
        messages
    }

    pub fn lost(&self) -> u64 {
        self.inbox.lost()
    }

    pub fn waiting(&self) -> u64 {
        self.inbox.waiting()
    }

    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Delivers for some more seconds, then stops. Returns messages for the operator. Call it once, after the last
    /// write.
    pub async fn finish(&mut self) -> Vec<String> {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.wake.notify_one();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let waiting = self.waiting();
        let mut messages = self.shared.take_messages();
        if waiting > 0 {
            messages
                .push(format!("{waiting} windows remain in the spool; the next agent with this state delivers them"));
        }
        messages
    }
}

async fn deliver_all<S: WindowStore>(shared: Arc<Shared>, mut delivery: Delivery<S>) {
    loop {
        let mut messages = Vec::new();
        let attempt = delivery.deliver(&mut messages).await;
        shared.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        match attempt {
            Attempt::Progress => {}
            // waiting windows stay in the spool
            Attempt::Idle | Attempt::Retry(_) if shared.is_stopping() => return,
            Attempt::Idle => shared.wake.notified().await,
            Attempt::Retry(delay) => wait(&shared, delay).await,
        }
    }
}

/// Ends early when the agent stops, but not for new windows.
async fn wait(shared: &Shared, delay: Duration) {
    let timer = tokio::time::sleep(delay);
    tokio::pin!(timer);
    loop {
        tokio::select! {
            () = &mut timer => return,
            () = shared.wake.notified() => if shared.is_stopping() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry_queue::MemoryQueue;
    use crate::tests::{TestStore, window};

    /// Holds 100 windows of one flow.
    fn queue() -> MemoryQueue {
        MemoryQueue::new(200)
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_reported_once_and_everything_is_delivered_later() {
        let store = TestStore::default();
        store.fail_with("connection refused");
        let mut fleet = FleetWriter::start(queue(), store.clone());
        let mut messages = Vec::new();
        for sequence in 1..=90 {
            messages.extend(fleet.write(window(sequence, 1)));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("connection refused") && messages[0].contains("spool"), "{messages:?}");
        assert!((4..20).contains(&fleet.failures()), "delays grow: {} failures", fleet.failures());
        store.recover();
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(fleet.write(window(91, 1))[0].contains("works again"));
        assert_eq!((fleet.finish().await, fleet.waiting()), (Vec::new(), 0));
        assert_eq!(store.sequences(), (1..=91).collect::<Vec<u64>>());
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_windows_do_not_block_others_and_are_reported_once() {
        let store = TestStore::rejecting(&[1, 30, 75]);
        store.fail_with("connection refused");
        let mut fleet = FleetWriter::start(queue(), store.clone());
        let mut messages = Vec::new();
        for sequence in 1..=90 {
            messages.extend(fleet.write(window(sequence, 1)));
        }
        store.recover();
        tokio::time::sleep(Duration::from_secs(61)).await;
        messages.extend(fleet.write(window(91, 1)));
        assert_eq!(fleet.lost(), 3);
        messages.extend(fleet.finish().await);
        assert_eq!(messages.iter().filter(|line| line.contains("rejects")).count(), 1, "{messages:?}");
        assert_eq!(fleet.waiting(), 0);
        let expected: Vec<u64> = (1..=91).filter(|sequence| ![1, 30, 75].contains(sequence)).collect();
        assert_eq!(store.sequences(), expected);
        assert_eq!(store.windows().last().unwrap().losses.windows, 3, "the next window counts them");
    }

    #[tokio::test(start_paused = true)]
    async fn windows_that_overflow_the_spool_are_lost_and_the_others_remain() {
        let store = TestStore::default();
        store.fail_with("connection refused");
        let mut fleet = FleetWriter::start(queue(), store.clone());
        for sequence in 1..=103 {
            fleet.write(window(sequence, 1));
        }
        assert_eq!(fleet.lost(), 3);
        let messages = fleet.finish().await;
        assert!(messages.last().unwrap().contains("100 windows remain"), "{messages:?}");
        assert_eq!((fleet.waiting(), store.windows().len()), (100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn overflow_is_counted_in_the_losses_of_the_following_windows() {
        let store = TestStore::default();
        store.fail_with("connection refused");
        let mut fleet = FleetWriter::start(queue(), store.clone());
        for sequence in 1..=103 {
            fleet.write(window(sequence, 1));
        }
        store.recover();
        tokio::time::sleep(Duration::from_secs(61)).await;
        fleet.write(window(104, 1));
        fleet.finish().await;
        assert_eq!(store.sequences(), (4..=104).collect::<Vec<u64>>());
        assert_eq!(store.windows().iter().map(|window| window.losses.windows).sum::<u64>(), 3);
        assert_eq!(fleet.lost(), 3);
    }
}
