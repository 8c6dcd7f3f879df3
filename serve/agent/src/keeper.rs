//! Keeps windows in this host's own store. What cannot be written waits in memory for a while: the spool lies on the same
//! disk, so it would not help against a full one.

use crate::trouble::Trouble;
use flows::Window;
use model::{Failure, Family};
use std::collections::VecDeque;
use std::future::Future;
use std::time::{Duration, Instant};

/// A store of windows. Recording is idempotent: a window that is there already is not counted again.
pub trait Shelf {
    fn record(&self, windows: &[Window]) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Flows that may wait: some 50 MB at most.
const WAITING_FLOWS: usize = 100_000;

pub struct Keeper<S> {
    shelf: S,
    waiting: VecDeque<Window>,
    trouble: Trouble,
    again: Instant,
    /// Windows that were given up since the last one that was taken in: told by the next one.
    lost: u64,
    pub failures: u64,
    pub lost_total: u64,
    pub spent: Duration,
}

impl<S: Shelf> Keeper<S> {
    pub fn new(shelf: S) -> Keeper<S> {
        Keeper {
            shelf,
            waiting: VecDeque::new(),
            trouble: Trouble::with("this host's store"),
            again: Instant::now(),
            lost: 0,
            failures: 0,
            lost_total: 0,
            spent: Duration::ZERO,
        }
    }

    pub fn shelf(&self) -> &S {
        &self.shelf
    }

    /// Keeps a window now or later. What it returns is for the user to read.
    pub async fn keep(&mut self, mut window: Window) -> Option<String> {
        window.losses.windows += std::mem::take(&mut self.lost);
        self.waiting.push_back(window);
        let told = if Instant::now() >= self.again { self.write().await } else { None };
        self.give_up_the_oldest();
        told
    }

    /// Writes what waits, also if a pause is not over.
    pub async fn write(&mut self) -> Option<String> {
        if self.waiting.is_empty() {
            return None;
        }
        let begin = Instant::now();
        let written = self.shelf.record(self.waiting.make_contiguous()).await;
        let (written, refused) = match written {
            Err(failure) if failure.family == Family::Request => self.write_one_by_one().await,
            Ok(()) => {
                self.waiting.clear();
                (Ok(()), None)
            }
            Err(failure) => (Err(failure), None),
        };
        self.spent += begin.elapsed();
        match written {
            Ok(()) => refused.or(self.trouble.worked()),
            Err(failure) => {
                self.failures += 1;
                let told = self.trouble.failed(&failure);
                self.again = Instant::now() + self.trouble.pause();
                told
            }
        }
    }

    /// A window that is refused for what it holds must not stand in the way of the others. The first of them is told.
    async fn write_one_by_one(&mut self) -> (Result<(), Failure>, Option<String>) {
        let mut told = None;
        while let Some(window) = self.waiting.pop_front() {
            match self.shelf.record(std::slice::from_ref(&window)).await {
                Ok(()) => {}
                Err(failure) if failure.family == Family::Request => {
                    self.failures += 1;
                    self.give_up(&window);
                    told.get_or_insert_with(|| failure.to_string());
                }
                Err(failure) => {
                    self.waiting.push_front(window);
                    return (Err(failure), told);
                }
            }
        }
        (Ok(()), told)
    }

    fn give_up(&mut self, window: &Window) {
        // what it told of earlier losses must not be lost with it
        self.lost += 1 + window.losses.windows;
        self.lost_total += 1;
    }

    fn give_up_the_oldest(&mut self) {
        let mut flows: usize = self.waiting.iter().map(|w| w.flows.len() + 1).sum();
        while flows > WAITING_FLOWS && self.waiting.len() > 1 {
            let Some(oldest) = self.waiting.pop_front() else { return };
            flows -= oldest.flows.len() + 1;
            self.give_up(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::window;
    use std::sync::Mutex;

    /// A disk that is full for a while, and a database that refuses some windows.
    #[derive(Default)]
    struct Disk {
        full: Mutex<bool>,
        refused: Vec<u64>,
        windows: Mutex<Vec<Window>>,
    }

    impl Shelf for Disk {
        async fn record(&self, windows: &[Window]) -> Result<(), Failure> {
            if *self.full.lock().unwrap() {
                return Err(Failure::environment("no space left"));
            }
            if windows.iter().any(|window| self.refused.contains(&window.sequence)) {
                return Err(Failure::request("the database refuses what a window holds"));
            }
            self.windows.lock().unwrap().extend_from_slice(windows);
            Ok(())
        }
    }

    fn kept(keeper: &Keeper<Disk>) -> Vec<u64> {
        keeper.shelf.windows.lock().unwrap().iter().map(|window| window.sequence).collect()
    }

    #[tokio::test]
    async fn a_refused_window_stands_in_nobodys_way_and_counts_as_lost() {
        let mut keeper = Keeper::new(Disk { refused: vec![2, 4], ..Disk::default() });
        assert_eq!(keeper.keep(window(1, 1)).await, None);
        *keeper.shelf.full.lock().unwrap() = true;
        for sequence in 2..=5 {
            keeper.keep(window(sequence, 1)).await;
        }
        *keeper.shelf.full.lock().unwrap() = false;
        assert!(keeper.write().await.unwrap().contains("refuses what a window holds"));
        assert_eq!((kept(&keeper), keeper.lost_total), (vec![1, 3, 5], 2));
        keeper.again = Instant::now();
        keeper.keep(window(6, 1)).await;
        assert_eq!(kept(&keeper), [1, 3, 5, 6]);
        assert_eq!(keeper.shelf.windows.lock().unwrap().last().unwrap().losses.windows, 2);
    }

    #[tokio::test]
    async fn a_full_disk_is_told_once_and_loses_nothing_for_a_while() {
        let mut keeper = Keeper::new(Disk::default());
        assert_eq!(keeper.keep(window(1, 1)).await, None);
        *keeper.shelf.full.lock().unwrap() = true;
        assert_eq!(keeper.keep(window(2, 1)).await.as_deref(), Some("error: no space left"));
        for sequence in 3..20 {
            keeper.again = Instant::now();
            assert_eq!(keeper.keep(window(sequence, 1)).await, None);
        }
        *keeper.shelf.full.lock().unwrap() = false;
        assert!(keeper.write().await.unwrap().contains("works again"));
        assert_eq!(kept(&keeper), (1..20).collect::<Vec<u64>>());
    }

    #[tokio::test]
    async fn what_no_longer_fits_is_counted_in_the_next_window() {
        let mut keeper = Keeper::new(Disk::default());
        *keeper.shelf.full.lock().unwrap() = true;
        for sequence in 1..=5 {
            keeper.keep(window(sequence, WAITING_FLOWS / 2)).await;
        }
        assert_eq!(keeper.lost_total, 4);
        *keeper.shelf.full.lock().unwrap() = false;
        keeper.again = Instant::now();
        keeper.keep(window(6, 1)).await;
        let kept = keeper.shelf.windows.lock().unwrap();
        assert_eq!(kept.iter().map(|w| w.losses.windows).sum::<u64>(), 4);
        assert_eq!(kept.last().unwrap().sequence, 6);
    }
}
