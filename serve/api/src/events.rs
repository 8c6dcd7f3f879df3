//! Server-sent events: changes of the store, as they happen.

use crate::changes::Changes;
use app::workbench::Change;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::channel::Channel;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// Without a change, a comment is sent this often: it shows that the connection is alive, and detects a closed page.
const HEARTBEAT: Duration = Duration::from_secs(10);
const BUFFER: usize = 16;

/// Ends when the page closes the connection.
pub(crate) fn stream(changes: &Changes) -> Response {
    let mut receiver = changes.listen();
    let (mut sender, body) = Channel::<Bytes, std::convert::Infallible>::new(BUFFER);
    tokio::spawn(async move {
        loop {
            let next = match tokio::time::timeout(HEARTBEAT, receiver.recv()).await {
                Ok(Ok(change)) => text(&change),
                Ok(Err(RecvError::Lagged(_))) => text(&Change::Runs),
                Ok(Err(RecvError::Closed)) => return,
                Err(_) => ": still here\n\n".to_owned(),
            };
            if sender.send_data(next.into()).await.is_err() {
                return;
            }
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(body)).into_response()
}

/// `event: progress` and its data in one line of JSON.
fn text(change: &Change) -> String {
    let (name, data) = match change {
        Change::Runs => ("runs", "{}".to_owned()),
        Change::Progress(progress) => ("progress", serde_json::to_string(progress).unwrap_or_default()),
    };
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use app::workbench::RunProgress;

    #[test]
    fn an_event_is_a_name_and_one_line_of_data() {
        let progress = RunProgress { run: "r\nx".into(), done: 3, failed: 1 };
        assert_eq!(
            text(&Change::Progress(progress)),
            "event: progress\ndata: {\"run\":\"r\\nx\",\"done\":3,\"failed\":1}\n\n"
        );
        assert_eq!(text(&Change::Runs), "event: runs\ndata: {}\n\n");
    }
}
