//! Requests whose envelope is also sent in `traceparent` and `baggage`, for services that support only OpenTelemetry.

use crate::credentials::Start;
use crate::request::RequestSpec;
use std::borrow::Cow;
use wire::bridge::{TraceParent, baggage_out, traceparent_out};

/// The request to send: with both headers if it requires a bridge, else unchanged.
pub fn bridged<'a>(spec: &'a RequestSpec, start: &Start) -> Cow<'a, RequestSpec> {
    if !spec.bridge {
        return Cow::Borrowed(spec);
    }
    let values = |name: &'static str| {
        spec.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    };
    let own = TraceParent { trace_id: start.trace_id, parent: start.call };
    let traceparent = traceparent_out(values("traceparent").next(), own);
    let present = values("baggage").collect::<Vec<_>>().join(",");
    let baggage = baggage_out(Some(&present), &start.envelope);
    let mut out = spec.clone();
    out.headers.retain(|(name, _)| !["traceparent", "baggage"].iter().any(|n| name.eq_ignore_ascii_case(n)));
    out.headers.push(("traceparent".to_owned(), traceparent));
    out.headers.extend(baggage.map(|text| ("baggage".to_owned(), text)));
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Start {
        Start { envelope: b"envelope".to_vec(), trace_id: [1; 16], call: 7 }
    }

    fn headers(bridge: bool, headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut spec = RequestSpec::parse("http://127.0.0.1:8080/", "GET").expect("a URL");
        spec.bridge = bridge;
        spec.headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        bridged(&spec, &start()).headers.clone()
    }

    #[test]
    fn a_request_without_a_bridge_is_unchanged() {
        assert_eq!(headers(false, &[("Baggage", "a=1")]), [("Baggage".to_owned(), "a=1".to_owned())]);
    }

    #[test]
    fn both_headers_are_added_and_the_users_own_are_kept() {
        let own = "00-01010101010101010101010101010101-0000000000000007-01".to_owned();
        let envelope = "faultloom=ZW52ZWxvcGU".to_owned();
        assert_eq!(headers(true, &[]), [("traceparent".to_owned(), own), ("baggage".to_owned(), envelope.clone())]);
        let theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(
            headers(true, &[("Traceparent", theirs), ("Baggage", "a=1"), ("accept", "*/*"), ("baggage", "b=2")]),
            [
                ("accept".to_owned(), "*/*".to_owned()),
                ("traceparent".to_owned(), theirs.to_owned()),
                ("baggage".to_owned(), format!("a=1,b=2,{envelope}"))
            ]
        );
    }
}
