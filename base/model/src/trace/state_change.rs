//! Whether a call changes state, by its name.
//!
//! Only names are known, so this is a heuristic. It decides which calls get the fault `lost-reply` by default, and
//! which bugs are the worst: state changed, and the user still got an error.
//!
//! ```text
//! HTTP   GET HEAD OPTIONS TRACE                          reads
//!        POST to a path whose last word reads (/search)  reads
//!        POST PUT PATCH DELETE                           changes
//! gRPC   the method begins with a word that reads        reads (Get, List, Search, …; also after Batch, Bulk, Stream)
//!        it begins with a word that changes              changes (Add, Charge, Create, …)
//!        any other word                                  unknown: changes, unless the user's request only reads
//! ```

use super::{Call, Protocol, Trace};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateEffect {
    Reads,
    Changes,
    /// Its name does not say.
    Unknown,
}

const READS: [&str; 45] = [
    "get",
    "list",
    "search",
    "query",
    "find",
    "read",
    "check",
    "lookup",
    "look",
    "describe",
    "watch",
    "count",
    "fetch",
    "load",
    "has",
    "is",
    "exists",
    "calculate",
    "compute",
    "convert",
    "estimate",
    "quote",
    "validate",
    "verify",
    "preview",
    "recommend",
    "suggest",
    "translate",
    "render",
    "format",
    "ping",
    "health",
    "echo",
    "browse",
    "resolve",
    "compare",
    "show",
    "view",
    "scan",
    "poll",
    "subscribe",
    "download",
    "graphql",
    "predict",
    "rank",
];

const CHANGES: [&str; 46] = [
    "add",
    "append",
    "apply",
    "approve",
    "assign",
    "book",
    "buy",
    "cancel",
    "charge",
    "checkout",
    "clear",
    "commit",
    "confirm",
    "create",
    "debit",
    "delete",
    "deposit",
    "drop",
    "empty",
    "enqueue",
    "increment",
    "insert",
    "issue",
    "move",
    "order",
    "pay",
    "place",
    "post",
    "publish",
    "purchase",
    "put",
    "refund",
    "register",
    "remove",
    "reserve",
    "save",
    "send",
    "set",
    "ship",
    "store",
    "submit",
    "transfer",
    "update",
    "upsert",
    "withdraw",
    "write",
];

/// Words before the verb.
const PREFIXES: [&str; 4] = ["batch", "bulk", "stream", "try"];

/// The verb at the beginning of `GetCart`, `batch_get_items` or `ListOrders2`, in lower case.
fn verb(name: &str) -> String {
    let mut words = words(name).into_iter();
    let first = words.next().unwrap_or_default();
    if PREFIXES.contains(&first.as_str()) { words.next().unwrap_or(first) } else { first }
}

/// The words of a name in camel case, or with `_`, `-` or `.` between them, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before_is_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_is_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("begins with one word").extend(c.to_lowercase());
        }
        before_is_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

impl StateEffect {
    /// Of a call with this name: `POST /orders/{id}`, `Charge` or `/shop.Payment/Charge`.
    pub fn of(protocol: Protocol, name: &str) -> StateEffect {
        match protocol {
            Protocol::Grpc => match verb(name.rsplit('/').next().unwrap_or(name)).as_str() {
                verb if READS.contains(&verb) => StateEffect::Reads,
                verb if CHANGES.contains(&verb) => StateEffect::Changes,
                _ => StateEffect::Unknown,
            },
            Protocol::Http => {
                let (method, path) = name.split_once(' ').unwrap_or((name, ""));
                let path = path.split('?').next().unwrap_or_default();
                let last = path.rsplit('/').find(|part| !part.is_empty() && !part.starts_with('{')).unwrap_or_default();
                match method {
                    "POST" if READS.contains(&verb(last).as_str()) => StateEffect::Reads,
                    "POST" | "PUT" | "PATCH" | "DELETE" => StateEffect::Changes,
                    _ => StateEffect::Reads,
                }
            }
        }
    }
}

impl Call {
    pub fn state_effect(&self) -> StateEffect {
        // a route template of the callee is used if it begins with the method
        let label = self.label();
        StateEffect::of(self.protocol, if label.contains(' ') { label } else { &self.name })
    }
}

impl Trace {
    /// Whether a call of this trace changes state. A call whose name does not say so counts only if the user's own
    /// request may change state.
    pub fn changes_state(&self, call: &Call) -> bool {
        match call.state_effect() {
            StateEffect::Changes => true,
            StateEffect::Reads => false,
            StateEffect::Unknown => self.entry.state_effect() != StateEffect::Reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_methods_say_whether_they_change_state() {
        for name in ["Charge", "/shop.Payment/Charge", "PlaceOrder", "AddItem", "EmptyCart", "send_confirmation"] {
            assert_eq!(StateEffect::of(Protocol::Grpc, name), StateEffect::Changes, "{name}");
        }
        for name in ["GetCart", "ListCharges", "Convert", "BatchGetItems", "lookup_user", "IsReady", "GetURL"] {
            assert_eq!(StateEffect::of(Protocol::Grpc, name), StateEffect::Reads, "{name}");
        }
        // a verb is a whole word
        for name in ["Getaway", "Settle", "Process"] {
            assert_eq!(StateEffect::of(Protocol::Grpc, name), StateEffect::Unknown, "{name}");
        }
    }

    #[test]
    fn methods_of_http_say_whether_they_change_state() {
        for name in ["POST /orders", "PUT /cart/{id}", "PATCH /a", "DELETE /search", "POST /orders/{id}/pay"] {
            assert_eq!(StateEffect::of(Protocol::Http, name), StateEffect::Changes, "{name}");
        }
        for name in ["GET /orders/delete", "HEAD /", "OPTIONS /a", "POST /products/search?q=a", "POST /quote/{id}"] {
            assert_eq!(StateEffect::of(Protocol::Http, name), StateEffect::Reads, "{name}");
        }
    }
}
