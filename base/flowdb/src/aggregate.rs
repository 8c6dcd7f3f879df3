//! Aggregates the flows of many windows. A minute of windows contains the same flows sixty times, and building a row
//! costs more than a lookup here.

use crate::batch::{Range, bucket, widen};
use flows::{Attribution, Counts, Flow, Host, Link, ListenAddress, ProcessId, ServiceKey, Side, Source, Window};
use std::collections::HashMap;

/// Identity of a flow with its host: [`flows::FlowKey`] by reference, to avoid clones.
#[derive(PartialEq, Eq, Hash)]
struct FlowRef<'w> {
    host: (&'w str, &'w str),
    side: Side,
    service: &'w ServiceKey,
    process: Option<ProcessId>,
    netns: u64,
    link: &'w Link,
    translated: Option<&'w ListenAddress>,
    source: Source,
    attribution: Attribution,
}

pub struct Aggregate<'w> {
    pub host: &'w Host,
    pub flow: &'w Flow,
    pub range: Range,
    /// Counts by bucket.
    pub counts: Vec<(i64, Counts)>,
}

impl Aggregate<'_> {
    fn add(&mut self, bucket: i64, counts: &Counts) {
        // windows are in order, so it is usually the last one
        match self.counts.iter_mut().rev().find(|(start, _)| *start == bucket) {
            Some((_, sum)) => sum.add(counts),
            None => self.counts.push((bucket, *counts)),
        }
    }
}

/// Passes each distinct flow to `each`. Windows of one agent must be in order. The flows of a single window are passed
/// on directly, because they are distinct.
pub fn aggregate<'w>(windows: &[&'w Window], mut each: impl FnMut(Aggregate<'w>)) {
    let one = |window: &'w Window, flow: &'w Flow| Aggregate {
        host: &window.host,
        flow,
        range: (window.from_ms, window.to_ms),
        counts: Vec::new(),
    };
    if let [window] = windows {
        for flow in &window.flows {
            each(Aggregate { counts: vec![(bucket(window.from_ms), flow.counts)], ..one(window, flow) });
        }
        return;
    }
    let mut all: HashMap<FlowRef<'w>, Aggregate<'w>> = HashMap::new();
    for window in windows {
        for flow in &window.flows {
            let aggregate = all.entry(flow_ref(&window.host, flow)).or_insert_with(|| one(window, flow));
            widen(&mut aggregate.range, (window.from_ms, window.to_ms));
            aggregate.add(bucket(window.from_ms), &flow.counts);
        }
    }
    all.into_values().for_each(each);
}

fn flow_ref<'w>(host: &'w Host, flow: &'w Flow) -> FlowRef<'w> {
    let Flow { side, service, process, netns, link, translated, source, attribution, counts: _ } = flow;
    FlowRef {
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
