//! Flows of many windows, each once. A minute of windows names the same flows sixty times, and making a row of one costs more than
//! finding it here.

use crate::batch::{Range, bucket, widen};
use flows::{Attribution, Counts, Flow, Host, Instance, Link, Passive, ServiceKey, Side, Source, Window};
use std::collections::{BTreeMap, HashMap};

/// What tells a flow from another.
#[derive(PartialEq, Eq, Hash)]
struct Ends<'w> {
    host: (&'w str, &'w str),
    side: Side,
    service: &'w ServiceKey,
    process: Option<Instance>,
    netns: u64,
    link: &'w Link,
    translated: Option<&'w Passive>,
    source: Source,
    attribution: Attribution,
}

pub struct Gathered<'w> {
    pub host: &'w Host,
    pub flow: &'w Flow,
    pub range: Range,
    /// By bucket.
    pub counts: BTreeMap<i64, Counts>,
}

/// Windows of one agent in their order.
pub fn gather<'w>(windows: &[&'w Window]) -> impl Iterator<Item = Gathered<'w>> {
    let mut all: HashMap<Ends<'w>, Gathered<'w>> = HashMap::new();
    for window in windows {
        let range = (window.from_ms, window.to_ms);
        for flow in &window.flows {
            let gathered = all.entry(ends(&window.host, flow)).or_insert_with(|| Gathered {
                host: &window.host,
                flow,
                range,
                counts: BTreeMap::new(),
            });
            widen(&mut gathered.range, range);
            gathered.counts.entry(bucket(window.from_ms)).or_default().add(&flow.counts);
        }
    }
    all.into_values()
}

fn ends<'w>(host: &'w Host, flow: &'w Flow) -> Ends<'w> {
    let Flow { side, service, process, netns, link, translated, source, attribution, counts: _ } = flow;
    Ends {
        host: (&host.id.0, &host.boot),
        side: *side,
        service,
        process: *process,
        netns: *netns,
        link,
        translated: translated.as_ref(),
        source: *source,
        attribution: *attribution,
    }
}
