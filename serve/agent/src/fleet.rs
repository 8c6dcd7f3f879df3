//! Hands windows on to the fleet's store. Every window is spooled to disk first, so that neither a database that is away
//! for an hour nor an agent that is killed loses one; the store ignores a window that it has already.

use crate::keeper::Shelf;
use crate::trouble::Trouble;
use flows::Window;
use model::{Failure, Family};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Windows on disk, oldest first, that wait for the fleet's store. Bounded: what does not fit drops the oldest.
pub trait Queue: Send {
    fn append(&mut self, window: &Window) -> Result<(), Failure>;
    /// At most `most` of the oldest.
    fn oldest(&mut self, most: usize) -> Result<Vec<Window>, Failure>;
    /// The oldest `count` need not be kept any longer.
    fn taken(&mut self, count: usize) -> Result<(), Failure>;
    /// The oldest is refused for what it holds: it goes out of the way of the others.
    fn set_aside(&mut self) -> Result<(), Failure>;
    fn waiting(&self) -> u64;
    /// Windows that were dropped because the spool was full or the store refuses them, since it was opened.
    fn dropped(&self) -> u64;
}

/// A store that may be away now.
pub trait Remote: Send + Sync + 'static {
    type Shelf: Shelf + Send + Sync;
    fn connect(&self) -> impl Future<Output = Result<Self::Shelf, Failure>> + Send;
}

/// Windows that are recorded in one transaction.
const BATCH: usize = 60;
/// Longer, and the database counts as away.
const PATIENCE: Duration = Duration::from_secs(60);
/// What waits gets so long when the agent ends; then it stays in the spool.
const FAREWELL: Duration = Duration::from_secs(5);

pub struct Fleet {
    shared: Arc<Shared>,
    worker: JoinHandle<()>,
    spooling: Trouble,
    /// Windows that could not be spooled, for the next one to tell.
    unspooled: u64,
    dropped: u64,
    lost: u64,
}

struct Shared {
    queue: Mutex<Box<dyn Queue>>,
    /// What the worker has to say to the operator.
    told: Mutex<Vec<String>>,
    failures: AtomicU64,
    ending: AtomicBool,
    woken: Notify,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Box<dyn Queue>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, words: impl IntoIterator<Item = String>) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).extend(words);
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Fleet {
    /// Needs a tokio runtime. What was spooled by an earlier agent is handed on first.
    pub fn start(queue: Box<dyn Queue>, remote: impl Remote) -> Fleet {
        let dropped = queue.dropped();
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            told: Mutex::default(),
            failures: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            woken: Notify::new(),
        });
        let worker = tokio::spawn(hand_on(shared.clone(), remote));
        Fleet { shared, worker, spooling: Trouble::with("the spool"), unspooled: 0, dropped, lost: 0 }
    }

    /// Spools a window. What it returns is for the operator to read.
    pub fn keep(&mut self, mut window: Window) -> Vec<String> {
        let mut told = self.shared.told();
        let mut queue = self.shared.queue();
        let dropped = queue.dropped() - self.dropped;
        self.dropped += dropped;
        self.lost += dropped;
        window.losses.windows += dropped + self.unspooled;
        match queue.append(&window) {
            Ok(()) => {
                self.unspooled = 0;
                told.extend(self.spooling.worked());
            }
            Err(failure) => {
                self.unspooled = window.losses.windows + 1;
                self.lost += 1;
                told.extend(self.spooling.failed(&failure));
            }
        }
        drop(queue);
        self.shared.woken.notify_one();
        told
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn waiting(&self) -> u64 {
        self.shared.queue().waiting()
    }

    pub fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }

    /// Gives the store some seconds to take what waits. Returns what there is to tell, and how many windows still wait.
    pub async fn finish(mut self) -> (Vec<String>, u64) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.shared.woken.notify_one();
        if tokio::time::timeout(FAREWELL, &mut self.worker).await.is_err() {
            self.worker.abort();
        }
        let waiting = self.waiting();
        let mut told = self.shared.told();
        if waiting > 0 {
            told.push(format!("{waiting} windows wait in the spool; the next agent with this state hands them on"));
        }
        (told, waiting)
    }
}

async fn hand_on<R: Remote>(shared: Arc<Shared>, remote: R) {
    let mut shelf = None;
    let mut trouble = Trouble::with("the fleet's store");
    let mut refusal = Refusal::default();
    loop {
        let batch = shared.queue().oldest(refusal.most());
        let result = match batch {
            Ok(batch) if batch.is_empty() => {
                if shared.ending.load(Ordering::Relaxed) {
                    return;
                }
                shared.woken.notified().await;
                continue;
            }
            Ok(batch) => send(&remote, &mut shelf, &batch).await.and_then(|()| shared.queue().taken(batch.len())),
            Err(failure) => Err(failure),
        };
        match result {
            Ok(()) => {
                refusal.passed();
                shared.tell(trouble.worked());
            }
            // without a shelf it was not the windows that were refused
            Err(failure) if failure.family == Family::Request && shelf.is_some() => {
                shared.tell(refusal.met(&shared, failure));
            }
            Err(failure) => {
                shelf = None;
                shared.failures.fetch_add(1, Ordering::Relaxed);
                let away = failure.next("windows are spooled and handed on when it is back");
                shared.tell(trouble.failed(&away));
                if shared.ending.load(Ordering::Relaxed) {
                    return;
                }
                pause(&shared, trouble.pause()).await;
            }
        }
    }
}

/// Finds the windows that the store refuses among those that were sent with them, and sets them aside.
#[derive(Default)]
struct Refusal {
    /// So many windows are sent one by one until all of the refused batch are through.
    alone: usize,
    told: bool,
}

impl Refusal {
    fn most(&self) -> usize {
        if self.alone > 0 { 1 } else { BATCH }
    }

    fn passed(&mut self) {
        self.alone = self.alone.saturating_sub(1);
    }

    /// What to tell: the first refused window, and not those that are refused after it.
    fn met(&mut self, shared: &Shared, failure: Failure) -> Option<String> {
        if self.alone == 0 {
            self.alone = BATCH;
            return None;
        }
        self.alone -= 1;
        shared.failures.fetch_add(1, Ordering::Relaxed);
        let set_aside = shared.queue().set_aside();
        let failure = match set_aside {
            Ok(()) => failure
                .next("report it with refused.jsonl of the spool, where such windows are kept; they count as lost"),
            Err(failure) => failure,
        };
        (!std::mem::replace(&mut self.told, true)).then(|| failure.to_string())
    }
}

/// Ends early when the agent does. New windows are no reason to try again.
async fn pause(shared: &Shared, length: Duration) {
    let over = tokio::time::sleep(length);
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return,
            () = shared.woken.notified() => if shared.ending.load(Ordering::Relaxed) { return },
        }
    }
}

async fn send<R: Remote>(remote: &R, shelf: &mut Option<R::Shelf>, batch: &[Window]) -> Result<(), Failure> {
    let sent = async {
        let connected = match shelf.take() {
            Some(connected) => connected,
            None => remote.connect().await?,
        };
        shelf.insert(connected).record(batch).await
    };
    match tokio::time::timeout(PATIENCE, sent).await {
        Ok(result) => result,
        Err(_) => Err(Failure::environment("the fleet's store does not answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::window;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Memory(VecDeque<Window>, u64);

    impl Queue for Memory {
        fn append(&mut self, window: &Window) -> Result<(), Failure> {
            self.0.push_back(window.clone());
            if self.0.len() > 100 {
                self.0.pop_front();
                self.1 += 1;
            }
            Ok(())
        }
        fn oldest(&mut self, most: usize) -> Result<Vec<Window>, Failure> {
            Ok(self.0.iter().take(most).cloned().collect())
        }
        fn taken(&mut self, count: usize) -> Result<(), Failure> {
            self.0.drain(..count);
            Ok(())
        }
        fn set_aside(&mut self) -> Result<(), Failure> {
            self.1 += 1;
            self.taken(1)
        }
        fn waiting(&self) -> u64 {
            self.0.len() as u64
        }
        fn dropped(&self) -> u64 {
            self.1
        }
    }

    #[derive(Clone, Default)]
    struct Database {
        up: Arc<AtomicBool>,
        windows: Arc<Mutex<Vec<Window>>>,
        /// Sequence numbers.
        refused: Vec<u64>,
    }

    impl Shelf for Database {
        async fn record(&self, windows: &[Window]) -> Result<(), Failure> {
            if windows.iter().any(|window| self.refused.contains(&window.sequence)) {
                return Err(Failure::request("the database refuses what a window holds"));
            }
            self.windows.lock().unwrap().extend_from_slice(windows);
            Ok(())
        }
    }

    impl Remote for Database {
        type Shelf = Database;
        async fn connect(&self) -> Result<Database, Failure> {
            match self.up.load(Ordering::Relaxed) {
                true => Ok(self.clone()),
                // of the family of windows that are refused: those that could not be sent must wait all the same
                false => Err(Failure::request("connection refused")),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_is_away_is_told_once_and_gets_everything_later() {
        let database = Database::default();
        let mut fleet = Fleet::start(Box::<Memory>::default(), database.clone());
        let mut told = Vec::new();
        for sequence in 1..=90 {
            told.extend(fleet.keep(window(sequence, 1)));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("connection refused") && told[0].contains("spooled"), "{told:?}");
        assert!((4..20).contains(&fleet.failures()), "pauses grow: {} failures", fleet.failures());
        database.up.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(fleet.keep(window(91, 1))[0].contains("works again"));
        let (told, waiting) = fleet.finish().await;
        assert_eq!((told, waiting), (Vec::new(), 0));
        let kept: Vec<u64> = database.windows.lock().unwrap().iter().map(|w| w.sequence).collect();
        assert_eq!(kept, (1..=91).collect::<Vec<u64>>());
    }

    #[tokio::test(start_paused = true)]
    async fn windows_that_are_refused_stand_in_nobodys_way_and_are_told_once() {
        let database = Database { refused: vec![1, 30, 75], ..Database::default() };
        let mut fleet = Fleet::start(Box::<Memory>::default(), database.clone());
        for sequence in 1..=90 {
            fleet.keep(window(sequence, 1));
        }
        database.up.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(61)).await;
        let mut told = fleet.keep(window(91, 1));
        assert_eq!(fleet.lost(), 3);
        let (rest, waiting) = fleet.finish().await;
        told.extend(rest);
        assert_eq!(told.iter().filter(|line| line.contains("refuses")).count(), 1, "{told:?}");
        assert_eq!(waiting, 0);
        let windows = database.windows.lock().unwrap();
        let kept: Vec<u64> = windows.iter().map(|w| w.sequence).collect();
        assert_eq!(kept, (1..=91).filter(|sequence| !database.refused.contains(sequence)).collect::<Vec<u64>>());
        assert_eq!(windows.last().unwrap().losses.windows, 3, "the next window tells of them");
    }

    #[tokio::test(start_paused = true)]
    async fn what_overflows_the_spool_is_counted_in_a_window() {
        let database = Database::default();
        let mut fleet = Fleet::start(Box::<Memory>::default(), database.clone());
        for sequence in 1..=103 {
            fleet.keep(window(sequence, 1));
        }
        assert_eq!(fleet.lost(), 2);
        let (told, waiting) = fleet.finish().await;
        assert!(told.last().unwrap().contains("100 windows wait"), "{told:?}");
        assert_eq!(waiting, 100);
    }
}
