//! Connections whose peer has not shown a token yet, up to a limit.
//!
//! Anyone who reaches the port can open such connections and then send nothing. They must not keep a client out:
//! above the limit, the oldest connection of the address with the most connections is closed. A client needs
//! milliseconds to show its token; then its connection leaves the room and counts against the limit of requests.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

#[derive(Clone)]
pub(crate) struct WaitingRoom {
    state: Arc<Mutex<State>>,
    max: usize,
}

#[derive(Default)]
struct State {
    entered: u64,
    /// Oldest first.
    taken: VecDeque<Taken>,
}

struct Taken {
    id: u64,
    peer: IpAddr,
    close: oneshot::Sender<()>,
}

impl WaitingRoom {
    pub fn new(max: usize) -> WaitingRoom {
        WaitingRoom { state: Arc::default(), max }
    }

    /// Admits a new connection.
    pub fn enter(&self, peer: IpAddr) -> Ticket {
        let (close, closed) = oneshot::channel();
        let mut state = self.lock();
        if state.taken.len() >= self.max
            && let Some(taken) = state.remove_oldest_of_largest()
        {
            tracing::debug!(peer = %taken.peer, "closed a connection that showed no token");
            // the connection may have just ended
            let _ = taken.close.send(());
        }
        state.entered += 1;
        let id = state.entered;
        state.taken.push_back(Taken { id, peer, close });
        drop(state);
        Ticket { seat: Seat { room: self.clone(), id, permit: Arc::default() }, closed }
    }

    /// No operation that holds the lock can leave it half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove_oldest_of_largest(&mut self) -> Option<Taken> {
        let mut connections: HashMap<IpAddr, usize> = HashMap::new();
        self.taken.iter().for_each(|taken| *connections.entry(taken.peer).or_default() += 1);
        let most = connections.values().copied().max()?;
        let at = self.taken.iter().position(|taken| connections[&taken.peer] == most)?;
        self.taken.remove(at)
    }
}

/// Admission of one connection.
pub(crate) struct Ticket {
    seat: Seat,
    closed: oneshot::Receiver<()>,
}

impl Ticket {
    /// For the handler of the connection's request.
    pub fn seat(&self) -> Seat {
        self.seat.clone()
    }

    /// Serves the connection until it ends, or until another one needs room.
    pub async fn keep(self, serve: impl Future<Output = ()>) {
        let Ticket { seat, closed } = self;
        let needed = async {
            // an error means that the connection has left the room
            if closed.await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            () = serve => {}
            () = needed => {}
        }
        seat.leave();
    }
}

/// The same connection, as its handler refers to it.
#[derive(Clone)]
pub(crate) struct Seat {
    room: WaitingRoom,
    id: u64,
    /// Kept until the connection ends, because its answer is in memory until then.
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Seat {
    /// The peer has shown the token: nothing closes its connection to make room.
    pub fn leave(&self) {
        self.room.lock().taken.retain(|taken| taken.id != self.id);
    }

    pub fn keep_permit(&self, permit: OwnedSemaphorePermit) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    #[tokio::test]
    async fn the_oldest_connection_of_the_busiest_peer_makes_room() {
        let room = WaitingRoom::new(3);
        let (first, second, third) = (room.enter(address(1)), room.enter(address(2)), room.enter(address(2)));
        let fourth = room.enter(address(3));
        second.keep(pending()).await;
        let mut open = [first, third, fourth];
        assert!(open.iter_mut().all(|ticket| ticket.closed.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
    }

    #[tokio::test]
    async fn a_connection_that_left_is_served_to_its_end() {
        let room = WaitingRoom::new(1);
        let ticket = room.enter(address(1));
        ticket.seat().leave();
        let _others = [room.enter(address(1)), room.enter(address(1))];
        let mut steps = 0;
        ticket
            .keep(async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                    steps += 1;
                }
            })
            .await;
        assert_eq!(steps, 10);
        assert_eq!(room.lock().taken.len(), 1);
    }
}
