//! Scopes with a plan: which fault fires at which send.

use crate::book::*;
use crate::steps::*;
use model::fault::AfterCounts;
use model::trace::Protocol;
use model::{Fault, FaultKind};
use wire::accept::Receiver;
use wire::scope::{CallEnd, Scope};
use wire::trust::Purpose;

pub fn write(book: &Book) {
    let id = |n| wire::call_id::derive(ROOT, n);
    let unavailable = |callee: &str, call: &str| Fault::new(FaultKind::Unavailable, select(callee, call));
    let round =
        |at: u64, n: u64, name: &str| vec![send(at, "grpc", CURRENCY, name), ended(at + 5, "reply", n, 0, None, true)];
    book.good(
        "scope-after",
        "scope",
        "a fault that fires from the first answered call on",
        scope_input(
            TRUST,
            Some(vec![unavailable("currency", "").after(select("", "GetCurrencies"), 1)]),
            [
                round(10, 1, GET),
                vec![send(30, "grpc", CURRENCY, CONVERT), ended(31, "failed", 2, 14, None, false)],
                vec![
                    send(40, "grpc", CURRENCY, CONVERT),
                    ended(41, "failed", 3, 14, None, false),
                    respond(50, 500, "GET /"),
                ],
            ]
            .concat(),
        ),
    );
    book.good(
        "scope-after-failed-call",
        "scope",
        "a call without a reply is not completed",
        scope_input(
            TRUST,
            Some(vec![unavailable("currency", "Convert").after(select("", "GetCurrencies"), 1)]),
            vec![
                send(10, "grpc", CURRENCY, GET),
                ended(20, "failed", 1, 14, None, true),
                send(30, "grpc", CURRENCY, CONVERT),
                ended(40, "reply", 2, 0, None, true),
                respond(50, 200, ""),
            ],
        ),
    );
    let mut sent = unavailable("currency", "Convert").after(select("", "GetCurrencies"), 1);
    sent.after_counts = AfterCounts::Sent;
    book.good(
        "scope-after-sent",
        "scope",
        "an after entry that counts sent calls",
        scope_input(
            TRUST,
            Some(vec![sent]),
            vec![
                send(10, "grpc", CURRENCY, GET),
                send(11, "grpc", CURRENCY, CONVERT),
                ended(12, "failed", 2, 14, None, false),
                ended(20, "reply", 1, 0, None, true),
                respond(50, 200, ""),
            ],
        ),
    );
    let mut own = unavailable("currency", "Convert").after(select("currency", "Convert"), 2);
    own.after_counts = AfterCounts::Sent;
    book.good(
        "scope-after-sent-never-counts-itself",
        "scope",
        "the send being decided is not counted",
        scope_input(
            TRUST,
            Some(vec![own]),
            [
                round(10, 1, CONVERT),
                round(20, 2, CONVERT),
                vec![
                    send(30, "grpc", CURRENCY, CONVERT),
                    ended(31, "failed", 3, 14, None, false),
                    respond(40, 500, ""),
                ],
            ]
            .concat(),
        ),
    );
    book.good(
        "scope-nth",
        "scope",
        "only the second matching call; two faults on one call: the first in the plan wins",
        scope_input(
            TRUST,
            Some(vec![
                unavailable("currency", "Convert").nth(2),
                Fault::new(FaultKind::Status, select("", "Convert")).arg(13).nth(2),
                Fault::new(FaultKind::Delay, select("", "Convert")).arg(5).nth(3),
            ]),
            [
                round(10, 1, CONVERT),
                vec![send(20, "grpc", CURRENCY, CONVERT), ended(21, "failed", 2, 14, None, false)],
                round(30, 3, CONVERT),
                vec![respond(40, 200, "")],
            ]
            .concat(),
        ),
    );
    let mut limited = unavailable("currency", "");
    limited.max_fires = 1;
    book.good("scope-max-fires-below", "scope", "fires in callees are counted from the returned events", {
        // a child that fired fault 0 at its own call
        let plan = vec![limited.clone()];
        let envelope = Receiver::new(trust())
            .accept(&seal(&signed(Some(plan.clone())), Purpose::Fault), NOW, 0)
            .expect("our own envelope");
        let mut envelope = envelope;
        envelope.hop.call = id(1);
        let mut below = Scope::new("checkout", &envelope, 1_800_000_000_124_000, true);
        let sent = below.begin_call(Protocol::Grpc, "currency", CONVERT, 5);
        below.record_failure(CallEnd { call: sent.number, status: 14, history: None, gap: false }, 6);
        below.finish(0, 9);
        let history = below.history("");
        scope_input(
            TRUST,
            Some(plan),
            vec![
                send(10, "grpc", "127.0.0.1:7009", "/shop.Checkout/Place"),
                ended(30, "reply", 1, 0, Some(&history), false),
                send(40, "grpc", CURRENCY, CONVERT),
                ended(50, "reply", 2, 0, None, true),
                respond(60, 200, ""),
            ],
        )
    });
    book.good(
        "scope-evidence-from-below",
        "scope",
        "completed calls of callees satisfy a prerequisite, also below a call whose reply was lost",
        {
            let history = child(
                id(1),
                "checkout",
                "",
                &[("currency", CONVERT, 0), ("currency", CONVERT, -14), ("cart", "/shop.Cart/GetCart", 0)],
            );
            let lost = child(id(2), "catalogue", "", &[("currency", CONVERT, 0)]);
            scope_input(
                TRUST,
                Some(vec![
                    unavailable("currency", "").after(select("", "Convert"), 2).after(select("cart", ""), 1),
                    Fault::new(FaultKind::LostReply, select("catalogue", "")),
                ]),
                vec![
                    send(10, "grpc", "127.0.0.1:7009", "/shop.Checkout/Place"),
                    ended(30, "reply", 1, 0, Some(&history), false),
                    send(40, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                    ended(45, "failed", 2, 14, Some(&lost), false),
                    send(50, "grpc", CURRENCY, CONVERT),
                    ended(51, "failed", 3, 14, None, false),
                    respond(60, 500, ""),
                ],
            )
        },
    );
    book.good(
        "scope-http-template",
        "scope",
        "a selector with a template matches the raw path",
        scope_input(
            TRUST,
            Some(vec![Fault::new(FaultKind::EmptyReply, select("cart", "GET /cart/{user}/items"))]),
            vec![
                send(10, "http", "127.0.0.1:7003", "GET /cart/alice/items?limit=3"),
                ended(20, "reply", 1, 200, None, true),
                send(30, "http", "127.0.0.1:7003", "GET /cart/alice"),
                ended(40, "reply", 2, 200, None, true),
                respond(50, 200, ""),
            ],
        ),
    );
    let off = TRUST.replace("faults on", "faults off");
    book.good(
        "scope-faults-off",
        "scope",
        "faults are switched off: the plan is forwarded, nothing fires, the segment has the flag",
        scope_input(
            &off,
            Some(vec![unavailable("currency", "").nth(1)]),
            [round(10, 1, GET), vec![respond(20, 200, "")]].concat(),
        ),
    );
}
