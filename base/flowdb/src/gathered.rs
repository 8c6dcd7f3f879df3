//! Flows of many windows, each once. A minute of windows names the same flows sixty times, and making a row of one costs more than
//! finding it here.

use crate::batch::{Range, bucket, widen};
use flows::{Attribution, Counts, Flow, Host, Instance, Link, Passive, ServiceKey, Side, Source, Window};
use std::collections::HashMap;

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
    pub counts: Vec<(i64, Counts)>,
}

impl Gathered<'_> {
    fn add(&mut self, bucket: i64, counts: &Counts) {
        // windows come in their order, so it is the last one
        match self.counts.iter_mut().rev().find(|(known, _)| *known == bucket) {
            Some((_, sum)) => sum.add(counts),
            None => self.counts.push((bucket, *counts)),
        }
    }
}

/// Windows of one agent in their order. A single one is handed on flow by flow: nothing is to be found in it.
pub fn gather<'w>(windows: &[&'w Window], mut each: impl FnMut(Gathered<'w>)) {
    let one = |window: &'w Window, flow: &'w Flow| Gathered {
        host: &window.host,
        flow,
        range: (window.from_ms, window.to_ms),
        counts: Vec::new(),
    };
    if let [window] = windows {
        for flow in &window.flows {
            each(Gathered { counts: vec![(bucket(window.from_ms), flow.counts)], ..one(window, flow) });
        }
        return;
    }
    let mut all: HashMap<Ends<'w>, Gathered<'w>> = HashMap::new();
    for window in windows {
        for flow in &window.flows {
            let gathered = all.entry(ends(&window.host, flow)).or_insert_with(|| one(window, flow));
            widen(&mut gathered.range, (window.from_ms, window.to_ms));
            gathered.add(bucket(window.from_ms), &flow.counts);
        }
    }
    all.into_values().for_each(each);
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
