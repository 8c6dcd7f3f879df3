//! Listens on loopback and serves connections, up to a limit.

use crate::cache::Cache;
use crate::changes::Changes;
use crate::routes::{Shared, router};
use crate::secrets::Secrets;
use app::Context;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use model::Failure;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// A browser opens six connections per page.
const CONNECTIONS_MAX: usize = 128;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES_MAX: usize = 32 << 10;
/// Views that are computed at the same time.
const VIEWS_AT_ONCE: usize = 2;
/// Delay before the next accept after a failure, for example if there are no free descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

pub struct Options {
    /// 0: any free port.
    pub port: u16,
    /// Whether the page may delete runs.
    pub allows_runs: bool,
    /// Called with the address of the page, with its one-time token, at the start and after each use.
    pub on_address: Box<dyn Fn(&str) + Send + Sync>,
}

/// Serves until `stop`.
///
/// # Errors
/// Environment if the port is in use.
pub async fn serve(context: &Context, options: Options, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    let Options { port, allows_runs, on_address } = options;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|e| {
        Failure::environment(format!("cannot listen on 127.0.0.1:{port}: {e}")).next("choose another with --port")
    })?;
    let address = listener
        .local_addr()
        .map_err(|e| Failure::environment(format!("the address of the workbench is unknown: {e}")))?;
    let (secrets, token) = Secrets::create()?;
    let on_token: Box<dyn Fn(&str) + Send + Sync> =
        Box::new(move |token: &str| on_address(&format!("http://{address}/#token={token}")));
    on_token(&token);
    let shared = Shared {
        context: context.clone(),
        secrets,
        changes: Changes::watch(context.clone()),
        cache: Cache::default(),
        turns: Arc::new(Semaphore::new(VIEWS_AT_ONCE)),
        allows_runs,
        on_token,
    };
    let router = router(Arc::new(shared), address);
    tokio::select! {
        () = accept(listener, router) => {}
        () = stop => {}
    }
    Ok(())
}

async fn accept(listener: TcpListener, router: axum::Router) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, peer)) if is_loopback(peer) => stream,
            Ok(_) => continue,
            Err(_) => {
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let router = router.clone();
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(HEADER_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection failed");
            }
            drop(permit);
        });
    }
}

fn is_loopback(peer: SocketAddr) -> bool {
    peer.ip().is_loopback()
}
