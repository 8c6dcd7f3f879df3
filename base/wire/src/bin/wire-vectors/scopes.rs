//! Scopes without faults.

use crate::book::*;
use crate::steps::*;
use model::{Fault, FaultKind};

pub fn write(book: &Book) {
    let id = |n| wire::call_id::derive(ROOT, n);
    book.good(
        "scope-tree",
        "scope",
        "two calls, one with a history of two levels, one without: the tree is embedded unchanged",
        {
            let deep = child(id(1), "catalogue", "", &[("127.0.0.1:9", "/store.Store/Read", 0)]);
            scope_input(
                TRUST,
                None,
                vec![
                    send(100, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                    ended(900, "reply", 1, 0, Some(&deep), false),
                    send(950, "http", "images.internal:80", "GET /img/1234/small.png?w=3"),
                    ended(1400, "reply", 2, 404, None, true),
                    respond(1500, 200, "GET /"),
                ],
            )
        },
    );
    book.good("scope-wrong-history", "scope", "the history of another call is a gap", {
        let other = child(id(7), "currency", "", &[]);
        scope_input(
            TRUST,
            None,
            vec![send(10, "grpc", CURRENCY, GET), ended(20, "reply", 1, 0, Some(&other), false), respond(30, 200, "")],
        )
    });
    book.good("scope-concurrent", "scope", "calls that overlap end in any order", {
        let first = child(id(1), "currency", "", &[]);
        let second = child(id(2), "catalogue", "", &[]);
        scope_input(
            TRUST,
            None,
            vec![
                send(10, "grpc", CURRENCY, GET),
                send(11, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                send(11, "grpc", "cart.prod.svc:80", "/shop.Cart/GetCart"),
                ended(50, "reply", 2, 0, Some(&second), false),
                ended(60, "reply", 1, 0, Some(&first), false),
                ended(70, "failed", 3, 4, None, true),
                respond(80, 500, ""),
            ],
        )
    });
    unreadable(book, id(1));
    book.good("scope-empty-authority", "scope", "a call to an empty authority or name is recorded as unknown", {
        scope_input(
            TRUST,
            None,
            vec![
                send(10, "grpc", "", GET),
                ended(20, "failed", 1, 14, None, false),
                send(30, "grpc", CURRENCY, ""),
                ended(40, "reply", 2, 12, None, true),
                respond(50, 200, ""),
            ],
        )
    });
}

/// A reply whose history cannot be read, with a plan that counts it.
fn unreadable(book: &Book, call: u64) {
    let plan = || vec![Fault::new(FaultKind::Unavailable, select("cart", "")).after(select("", "Convert"), 2)];
    let convert = child(call, "currency", "", &[("bank", CONVERT, 0), ("bank", CONVERT, 0)]);
    let input = |history: &[u8]| {
        scope_input(
            TRUST,
            Some(plan()),
            vec![
                send(10, "grpc", CURRENCY, CONVERT),
                ended(20, "reply", 1, 0, Some(history), false),
                send(30, "grpc", "cart", "/shop.Cart/GetCart"),
                respond(40, 200, ""),
            ],
        )
    };
    book.good("scope-readable-history", "scope", "three calls completed: the fault fires", input(&convert));
    let at = convert.windows(4).position(|bytes| bytes == b"bank").expect("the callee's name");
    let mut changed = convert;
    changed[at] = 0xff;
    let about = "a history that cannot be read is embedded and counts nothing: the fault does not fire";
    book.good("scope-unreadable-history", "scope", about, input(&changed));
}
