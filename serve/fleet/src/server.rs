//! Answers what this host saw.

use crate::frame::{self, Answer, Question};
use crate::identity::Identity;
use crate::token::Token;
use flows::Slice;
use model::Failure;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Where slices come from.
pub trait Slices: Send + Sync + 'static {
    fn slice(&self, from_ms: i64, to_ms: i64) -> impl Future<Output = Result<Slice, Failure>> + Send;
}

/// What one peer may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At once; further ones are closed as they come.
    pub connections: usize,
    /// From the connection to the end of the TLS handshake, and from there to the end of the question.
    pub question: Duration,
    /// To find the answer and to send it.
    pub answer: Duration,
    pub question_bytes: usize,
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 32,
            question: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            question_bytes: 4 << 10,
            answer_bytes: 64 << 20,
        }
    }
}

/// Longer ranges are refused.
const RANGE_MAX_MS: i64 = 400 * 86_400_000;
/// After a failure to accept (no descriptors left) before the next try.
const BREATH: Duration = Duration::from_millis(100);

pub struct Server<S> {
    listener: TcpListener,
    work: Arc<Work<S>>,
}

struct Work<S> {
    acceptor: TlsAcceptor,
    token: Token,
    slices: S,
    limits: Limits,
}

impl<S: Slices> Server<S> {
    /// Binds the address; nothing is answered before [`Server::run`].
    pub async fn bind(
        address: SocketAddr,
        identity: &Identity,
        token: Token,
        slices: S,
        limits: Limits,
    ) -> Result<Server<S>, Failure> {
        let listener = TcpListener::bind(address).await.map_err(|e| {
            Failure::environment(format!("{address} cannot be listened on: {e}")).next("choose another with --listen")
        })?;
        let acceptor = TlsAcceptor::from(identity.server_config()?);
        Ok(Server { listener, work: Arc::new(Work { acceptor, token, slices, limits }) })
    }

    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|e| Failure::environment(format!("the listener has no address: {e}")))
    }

    /// Until `stop` is ready. Answers that are under way are dropped then.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(self.work.limits.connections));
        let mut peers = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return,
                accepted = self.listener.accept() => accepted,
                Some(_) = peers.join_next() => continue,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(BREATH).await;
                continue;
            };
            if let Ok(place) = places.clone().try_acquire_owned() {
                let work = self.work.clone();
                peers.spawn(async move {
                    work.serve(stream).await;
                    drop(place);
                });
            }
        }
    }
}

impl<S: Slices> Work<S> {
    /// One question. Whatever goes wrong with a peer is its own business: it is closed.
    async fn serve(&self, stream: TcpStream) {
        let Ok(Ok(mut tls)) = timeout(self.limits.question, self.acceptor.accept(stream)).await else { return };
        let asked = timeout(self.limits.question, frame::read::<Question>(&mut tls, self.limits.question_bytes)).await;
        let answer = match asked {
            Err(_) => return,
            Ok(Err(why)) => Answer::Refused(format!("the question was not understood: {why}")),
            Ok(Ok(question)) => timeout(self.limits.answer, self.answer(&question))
                .await
                .unwrap_or_else(|_| Answer::Refused("the store did not answer in time".to_owned())),
        };
        let bytes = match frame::bytes(&answer) {
            Ok(bytes) if bytes.len() <= self.limits.answer_bytes => bytes,
            Ok(bytes) => {
                let why = format!("the slice has {} bytes, at most {} are sent", bytes.len(), self.limits.answer_bytes);
                frame::bytes(&Answer::Refused(why + ": ask for a shorter range")).unwrap_or_default()
            }
            Err(_) => return,
        };
        let _ = timeout(self.limits.answer, async {
            frame::write(&mut tls, &bytes).await?;
            tls.shutdown().await
        })
        .await;
    }

    async fn answer(&self, question: &Question) -> Answer {
        // the token first: without it nothing is learned, not even the version
        if !self.token.is(&question.token) {
            return Answer::Refused("the token is not the one of this host".to_owned());
        }
        if question.version != frame::VERSION {
            return Answer::Refused(format!("version {} is asked for, this is {}", question.version, frame::VERSION));
        }
        let length = question.to_ms.checked_sub(question.from_ms);
        if !length.is_some_and(|length| (0..=RANGE_MAX_MS).contains(&length)) {
            return Answer::Refused("the range ends before it begins, or is longer than a year".to_owned());
        }
        match self.slices.slice(question.from_ms, question.to_ms).await {
            Ok(slice) => Answer::Slice(slice),
            Err(failure) => Answer::Refused(failure.what),
        }
    }
}
