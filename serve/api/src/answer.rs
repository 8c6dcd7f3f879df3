//! Replies of the API: JSON, or an error with what failed, why, and the next step.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use model::{Failure, Family};
use serde_json::json;

pub(crate) fn json(bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response()
}

pub(crate) fn refused(status: StatusCode, what: &str, next: &str) -> Response {
    error(status, &Failure::request(what).next(next))
}

/// The path itself is wrong.
pub(crate) fn invalid(failure: &Failure) -> Response {
    error(StatusCode::BAD_REQUEST, failure)
}

/// The HTTP status follows from the failure's family. A path that names nothing is 404.
pub(crate) fn failed(failure: &Failure) -> Response {
    let status = match failure.family {
        Family::Request => StatusCode::NOT_FOUND,
        Family::Unknown => StatusCode::CONFLICT,
        Family::Environment | Family::Aborted => StatusCode::SERVICE_UNAVAILABLE,
        Family::Bug => StatusCode::INTERNAL_SERVER_ERROR,
    };
    error(status, failure)
}

fn error(status: StatusCode, failure: &Failure) -> Response {
    let Failure { what, why, next, .. } = failure;
    let body = json!({"error": {"what": what, "why": why, "next": next}});
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
