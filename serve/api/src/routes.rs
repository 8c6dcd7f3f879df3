//! The paths of the API and of the page.

use crate::answer::{failed, invalid, json, refused};
use crate::cache::{Cache, FilesVersion};
use crate::changes::Changes;
use crate::secrets::Secrets;
use crate::{document, events, guard};
use app::Context;
use app::history::{self, DeleteSpec};
use app::spec::Version;
use app::workbench::{self, RequestName};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use model::Failure;
use report::view::Audience;
use serde::{Deserialize, Serialize};
use serde_json::json as value;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What all handlers share.
pub(crate) struct Shared {
    pub context: Context,
    pub secrets: Secrets,
    pub changes: Changes,
    pub cache: Cache,
    /// Views that are computed at the same time: each may need the memory of a large run.
    pub turns: Arc<Semaphore>,
    pub allows_runs: bool,
    /// Called with the next one-time token after one was used.
    pub on_token: Box<dyn Fn(&str) + Send + Sync>,
}

type App = State<Arc<Shared>>;

/// The only body that a request needs is a token.
const BODY_BYTES_MAX: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn router(shared: Arc<Shared>, address: SocketAddr) -> Router {
    let protected = Router::new()
        .route("/about", get(about))
        .route("/openapi", get(|| async { json(Bytes::from(document().to_string())) }))
        .route("/events", get(|State(shared): App| async move { events::stream(&shared.changes) }))
        .route("/runs", get(runs))
        .route("/runs/{id}", axum::routing::delete(delete))
        .route("/runs/{id}/view", get(view))
        .route("/runs/{id}/cases/{space}", get(cases))
        .route("/runs/{id}/traces/{which}", get(trace))
        .route("/comparison/{first}/{first_which}/{other}/{other_which}", get(comparison))
        .fallback(|| async { refused(StatusCode::NOT_FOUND, "there is no such path", "GET /api/v1/openapi lists all") })
        .layer(from_fn_with_state(shared.clone(), sessions_only));
    Router::new()
        .nest("/api/v1", protected)
        .route("/api/v1/session", post(session))
        .fallback(get(page_file))
        .layer(from_fn_with_state(address, guard::own_requests_only))
        .with_state(shared)
}

/// Refuses requests without the secret of a session.
async fn sessions_only(State(shared): App, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let secret = shown.and_then(|text| text.strip_prefix("Bearer "));
    if !secret.is_some_and(|secret| shared.secrets.is_session(secret)) {
        return refused(
            StatusCode::UNAUTHORIZED,
            "the request has no valid session",
            "open the address that `faultloom ui` printed last",
        );
    }
    next.run(request).await
}

/// The page and its files. Every other path is the address of a screen, which the page interprets.
async fn page_file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let is_asset = path.starts_with("assets/");
    let name = if is_asset { path } else { page::INDEX };
    match page::file(name) {
        Some(bytes) => ([(header::CONTENT_TYPE, page::media_type(name))], Body::from(bytes)).into_response(),
        None => (StatusCode::NOT_FOUND, "not found\n").into_response(),
    }
}

#[derive(Deserialize)]
struct SessionRequest {
    token: String,
}

async fn session(State(shared): App, request: Request) -> Response {
    // a connection that sends no body must not stay
    let body = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    let Ok(SessionRequest { token }) = serde_json::from_slice(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the body is not {\"token\": …}", "open the printed address");
    };
    match shared.secrets.open_session(&token) {
        Ok(Some((session, next))) => {
            (shared.on_token)(&next);
            json(Bytes::from(value!({"session": session}).to_string()))
        }
        Ok(None) => refused(
            StatusCode::UNAUTHORIZED,
            "this address was used already, or it is from an earlier start",
            "open the address that `faultloom ui` printed last",
        ),
        Err(failure) => failed(&failure),
    }
}

async fn about(State(shared): App) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    json(Bytes::from(value!({"version": 1, "tool_version": version, "allows_runs": shared.allows_runs}).to_string()))
}

async fn runs(State(shared): App) -> Response {
    answer(workbench::runs(&shared.context).await)
}

async fn delete(State(shared): App, Path(id): Path<String>) -> Response {
    if !shared.allows_runs {
        return refused(StatusCode::FORBIDDEN, "this workbench only reads", "start it with `faultloom ui --allow-run`");
    }
    let deleted = history::delete(&shared.context, &DeleteSpec { version: Version, run: id }).await;
    answer(deleted.map(|id| value!({"deleted": id})))
}

async fn view(State(shared): App, Path(id): Path<String>) -> Response {
    let context = shared.context.clone();
    let of = id.clone();
    cached(&shared, &format!("{id}/view"), &[&id], async move { workbench::run(&context, &of, Audience::Owner).await })
        .await
}

async fn cases(State(shared): App, Path((id, space)): Path<(String, usize)>) -> Response {
    let context = shared.context.clone();
    let of = id.clone();
    cached(&shared, &format!("{id}/cases/{space}"), &[&id], async move { workbench::cases(&context, &of, space).await })
        .await
}

async fn trace(State(shared): App, Path((id, which)): Path<(String, String)>) -> Response {
    let name = match format!("{id}/{which}").parse::<RequestName>() {
        Ok(name) => name,
        Err(failure) => return invalid(&failure),
    };
    let context = shared.context.clone();
    cached(&shared, &format!("{id}/traces/{which}"), &[&id], async move { workbench::trace(&context, &name).await })
        .await
}

async fn comparison(
    State(shared): App,
    Path((first, first_which, other, other_which)): Path<(String, String, String, String)>,
) -> Response {
    let path = format!("{first}/{first_which}/{other}/{other_which}");
    let parsed = (
        format!("{first}/{first_which}").parse::<RequestName>(),
        format!("{other}/{other_which}").parse::<RequestName>(),
    );
    let (left, right) = match parsed {
        (Ok(left), Ok(right)) => (left, right),
        (Err(failure), _) | (_, Err(failure)) => return invalid(&failure),
    };
    let context = shared.context.clone();
    let compared = async move { workbench::comparison(&context, &left, &right).await };
    cached(&shared, &path, &[&first, &other], compared).await
}

fn answer<T: Serialize>(result: Result<T, Failure>) -> Response {
    match result.and_then(|value| encode(&value)) {
        Ok(bytes) => json(bytes),
        Err(failure) => failed(&failure),
    }
}

fn encode(value: &impl Serialize) -> Result<Bytes, Failure> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|e| Failure::new(model::Family::Bug, format!("a view cannot be written: {e}")))
}

/// The reply from the cache if the runs' files are unchanged; otherwise computes it. On a thread of its own, because it
/// reads files and may take seconds, while other replies and events must not wait.
async fn cached<T, F>(shared: &Arc<Shared>, path: &str, runs: &[&str], compute: F) -> Response
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let version = match files_version(&shared.context, runs).await {
        Ok(version) => version,
        Err(failure) => return failed(&failure),
    };
    if let Some(bytes) = shared.cache.get(path, version) {
        return json(bytes);
    }
    let Ok(turn) = shared.turns.clone().acquire_owned().await else {
        return failed(&Failure::new(model::Family::Bug, "the workbench is stopping"));
    };
    let runtime = tokio::runtime::Handle::current();
    let compute = move || {
        let _turn = turn; // until it is computed, also if the page closes the connection
        runtime.block_on(compute).and_then(|value| encode(&value))
    };
    let computed = tokio::task::spawn_blocking(compute).await;
    match computed {
        Ok(Ok(bytes)) => {
            shared.cache.put(path, version, bytes.clone());
            json(bytes)
        }
        Ok(Err(failure)) => failed(&failure),
        Err(error) => failed(&Failure::new(model::Family::Bug, format!("a view was not computed: {error}"))),
    }
}

/// Changes with the files of the runs, and when a run ends.
async fn files_version(context: &Context, runs: &[&str]) -> Result<FilesVersion, Failure> {
    let store = context.store().await?;
    let mut hasher = DefaultHasher::new();
    for id in runs {
        let run = store.find(id).await?;
        (run.id, run.end_ms).hash(&mut hasher);
        let entries = std::fs::read_dir(store.dir(run.id).path()).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((entry.file_name(), metadata.len(), metadata.modified().ok()))
            })
            .collect();
        files.sort();
        files.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
