//! Pairing: from what single ends saw to who is tied to whom.
//!
//! All flows that lead to one listening point (protocol, address and port or path, namespace) are looked at together, and within it all
//! that come from one address. There both ends' flows meet:
//!
//! | active nodes | passive nodes | result |
//! |---|---|---|
//! | any | 1 | each active node to it |
//! | 1 | several | one tie per passive node, as each of these counted |
//! | several | several processes of one service | each active node to the service: which process took whose connection is not known |
//! | several | several services | to the one that counted most, as an attribution by listener; the others are tied without counts |
//! | any | none | to whoever listens there, else the host of the address, else the address |
//! | none | any | from the host that holds the active address, else the address |
//!
//! Every flow is part of exactly one tie. What both ends counted is counted once, as the active side did.

use crate::By;
use crate::names::{End, Names};
use crate::places::{Place, Places};
use flows::{Attribution, Counts, Flow, Passive, Protocol, Side, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A flow and where it was seen.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub flow: &'a Flow,
    pub place: Place,
    /// Position among the flows of its host.
    pub index: usize,
}

impl<'a> View<'a> {
    fn end(&self, by: By) -> End<'a> {
        let process = if by == By::Process { self.flow.process } else { None };
        End::Service { host: self.place.host, key: &self.flow.service, process }
    }
}

pub(crate) struct Tie<'a> {
    pub from: End<'a>,
    pub to: End<'a>,
    pub protocol: Protocol,
    pub at: &'a Passive,
    pub counts: Counts,
    pub paired: bool,
    pub source: Source,
    pub attribution: Attribution,
    pub translated: bool,
    pub views: Vec<View<'a>>,
}

/// Where connections arrive. Without a place: at an address nobody answers for.
type Point<'a> = (Protocol, &'a Passive, Option<Place>);

/// Points by what connections to them were addressed to before their host translated it, in any of its namespaces.
type Aliases<'a> = BTreeMap<(Protocol, &'a Passive, usize), Point<'a>>;

#[derive(Default)]
struct Bundle<'a> {
    active: Vec<View<'a>>,
    passive: Vec<View<'a>>,
    /// The address of the active side was changed on its way.
    masqueraded: bool,
}

pub(crate) struct Ties<'a> {
    pub ties: Vec<Tie<'a>>,
    /// Addresses that several hosts hold, so that flows to them could not be followed.
    pub ambiguous: BTreeSet<IpAddr>,
}

pub(crate) fn ties<'a>(places: &Places<'a>, names: &Names<'a>) -> Ties<'a> {
    let mut ambiguous = BTreeSet::new();
    let mut all = Vec::new();
    for (point, mut bundles) in points(places, &mut ambiguous) {
        join_masqueraded(places, point, &mut bundles);
        let elsewhere: BTreeSet<End> = bundles.values().flat_map(|b| &b.passive).map(|v| v.end(By::Service)).collect();
        for (active_ip, bundle) in &bundles {
            let tying = Tying { places, names, point, elsewhere: &elsewhere, all: &mut all };
            tying.tie(*active_ip, bundle);
        }
    }
    Ties { ties: all, ambiguous }
}

fn points<'a>(
    places: &Places<'a>,
    ambiguous: &mut BTreeSet<IpAddr>,
) -> BTreeMap<Point<'a>, BTreeMap<Option<IpAddr>, Bundle<'a>>> {
    let mut views: Vec<View> = Vec::new();
    for (host, seen) in places.hosts.iter().enumerate() {
        views.extend(seen.flows.iter().enumerate().map(|(index, flow)| View {
            flow,
            place: Place { host, netns: flow.netns },
            index,
        }));
    }
    views.sort_by_cached_key(|v| {
        let f = v.flow;
        let counts = [f.counts.opened, f.counts.established, f.counts.sent, f.counts.received, f.counts.open];
        (f.service.clone(), f.process, f.link.clone(), f.translated.clone(), f.source, f.attribution, counts)
    });
    let mut points: BTreeMap<Point, BTreeMap<Option<IpAddr>, Bundle>> = BTreeMap::new();
    let mut aliases = Aliases::new();
    for view in views.iter().filter(|v| v.flow.side == Side::Passive) {
        let link = &view.flow.link;
        let point = (link.protocol, &link.passive, Some(view.place));
        points.entry(point).or_default().entry(link.active).or_default().passive.push(*view);
        if let Some(other) = &view.flow.translated {
            aliases.insert((link.protocol, other, view.place.host), point);
        }
    }
    let known: BTreeSet<Point> = points.keys().copied().collect();
    for view in views.iter().filter(|v| v.flow.side == Side::Active) {
        let point = arrival(places, view, &known, &aliases, ambiguous);
        points.entry(point).or_default().entry(view.flow.link.active).or_default().active.push(*view);
    }
    points
}

/// The point that an active flow leads to.
fn arrival<'a>(
    places: &Places<'a>,
    view: &View<'a>,
    known: &BTreeSet<Point<'a>>,
    aliases: &Aliases<'a>,
    ambiguous: &mut BTreeSet<IpAddr>,
) -> Point<'a> {
    let (flow, protocol) = (view.flow, view.flow.link.protocol);
    let at = flow.translated.as_ref().unwrap_or(&flow.link.passive);
    let Passive::Inet { ip, .. } = at else { return (protocol, at, Some(view.place)) };
    let candidates = places.holders(view.place, *ip);
    let resolved = |place: &Place| {
        let point = (protocol, at, Some(*place));
        known.get(&point).or_else(|| aliases.get(&(protocol, at, place.host))).copied()
    };
    if let [place] = candidates[..] {
        return resolved(&place).unwrap_or((protocol, at, Some(place)));
    }
    let answering: Vec<Point> = candidates.iter().filter_map(resolved).collect();
    match answering[..] {
        [point] => point,
        _ => {
            if !candidates.is_empty() {
                ambiguous.insert(*ip);
            }
            (protocol, at, None)
        }
    }
}

/// Passive flows from an address that no active flow left from: a masquerade put its own address there. The active side then sits on a
/// host that holds that address, and its own address is not seen here.
fn join_masqueraded<'a>(places: &Places<'a>, point: Point<'a>, bundles: &mut BTreeMap<Option<IpAddr>, Bundle<'a>>) {
    let lonely = |b: &Bundle| b.active.is_empty() && !b.passive.is_empty();
    let seen_from: Vec<IpAddr> = bundles.iter().filter(|(_, b)| lonely(b)).filter_map(|(ip, _)| *ip).collect();
    if point.2.is_none() {
        return;
    }
    for ip in seen_from {
        let hosts: BTreeSet<usize> = places.all_holders(ip).map(|place| place.host).collect();
        let left_from = bundles
            .iter()
            .find(|(_, b)| b.passive.is_empty() && b.active.iter().any(|v| hosts.contains(&v.place.host)))
            .map(|(ip, _)| *ip);
        if let Some(left_from) = left_from
            && let Some(seen) = bundles.remove(&Some(ip))
            && let Some(bundle) = bundles.get_mut(&left_from)
        {
            bundle.passive = seen.passive;
            bundle.masqueraded = true;
        }
    }
}

struct Tying<'a, 't> {
    places: &'t Places<'a>,
    names: &'t Names<'a>,
    point: Point<'a>,
    /// Services that were seen to accept at this point, from whichever address.
    elsewhere: &'t BTreeSet<End<'a>>,
    all: &'t mut Vec<Tie<'a>>,
}

/// Nodes with the views of each.
type Nodes<'a> = Vec<(End<'a>, Vec<View<'a>>)>;

impl<'a> Tying<'a, '_> {
    fn tie(mut self, active_ip: Option<IpAddr>, bundle: &Bundle<'a>) {
        let (active, passive) = (self.nodes(&bundle.active), self.nodes(&bundle.passive));
        match (active.len(), passive.len()) {
            (_, 0) => self.active_only(active),
            (0, _) => self.passive_only(active_ip, passive),
            (_, 1) => {
                let (to, views) = passive.into_iter().next().expect("one");
                self.tie_one(active, to, views, bundle.masqueraded);
            }
            (1, _) => self.tie_each(active, passive, bundle.masqueraded),
            _ => self.tie_any(active, passive, bundle.masqueraded),
        }
    }

    /// Views by node, sorted by id.
    fn nodes(&self, views: &[View<'a>]) -> Nodes<'a> {
        let mut nodes: BTreeMap<String, (End<'a>, Vec<View<'a>>)> = BTreeMap::new();
        for view in views {
            let end = view.end(self.names.by);
            nodes.entry(self.names.id(&end)).or_insert_with(|| (end, Vec::new())).1.push(*view);
        }
        nodes.into_values().collect()
    }

    fn push(&mut self, from: End<'a>, to: End<'a>, views: Vec<View<'a>>, counts: Counts, how: How) {
        let weakest = views.iter().map(|v| (v.flow.source, v.flow.attribution));
        let source = weakest.clone().map(|w| w.0).max().unwrap_or(how.source);
        let attribution = weakest.map(|w| w.1).max().unwrap_or(Attribution::Exact);
        let translated = views.iter().any(|v| v.flow.translated.is_some());
        self.all.push(Tie {
            from,
            to,
            protocol: self.point.0,
            at: self.point.1,
            counts,
            paired: how.paired,
            source: source.max(how.source),
            attribution: attribution.max(how.attribution),
            translated: translated || how.translated,
            views,
        });
    }

    fn active_only(mut self, active: Nodes<'a>) {
        let (to, by_listener) = self.destination();
        for (from, views) in active {
            let counts = sum(&views);
            let attribution = if by_listener { Attribution::Listener } else { Attribution::Exact };
            self.push(from, to.clone(), views, counts, How { attribution, ..How::ONE_SIDED });
        }
    }

    /// Who is meant by a point that no flow was seen to arrive at, and whether that is known from its listeners.
    fn destination(&self) -> (End<'a>, bool) {
        let (protocol, at, place) = self.point;
        let Some(place) = place else {
            return match at {
                Passive::Inet { ip, .. } => (End::External(*ip), false),
                Passive::Path(_) => unreachable!("a path has the place of who opened it"),
            };
        };
        let listening = self.places.listener(place, protocol, at);
        let listening = listening.map(|key| End::Service { host: place.host, key, process: None });
        let seen = || if self.elsewhere.len() == 1 { self.elsewhere.first().cloned() } else { None };
        match listening.or_else(seen) {
            Some(end) => (end, true),
            None => (End::Host(place.host), false),
        }
    }

    fn passive_only(mut self, active_ip: Option<IpAddr>, passive: Nodes<'a>) {
        let place = self.point.2.expect("a passive flow has a place");
        let from = match active_ip {
            None => End::Host(place.host),
            Some(ip) => {
                let holders: BTreeSet<usize> = self.places.holders(place, ip).iter().map(|p| p.host).collect();
                match holders.first() {
                    Some(host) if holders.len() == 1 => End::Host(*host),
                    _ => End::External(ip),
                }
            }
        };
        for (to, views) in passive {
            let counts = turned(sum(&views));
            self.push(from.clone(), to, views, counts, How::ONE_SIDED);
        }
    }

    fn tie_one(&mut self, active: Nodes<'a>, to: End<'a>, mut passive: Vec<View<'a>>, masqueraded: bool) {
        let how = How { translated: masqueraded, ..How::paired(&passive) };
        for (from, mut views) in active {
            let counts = sum(&views);
            views.append(&mut passive);
            self.push(from, to.clone(), views, counts, how);
        }
    }

    fn tie_each(&mut self, active: Nodes<'a>, mut passive: Nodes<'a>, masqueraded: bool) {
        let (from, mut active) = active.into_iter().next().expect("one");
        // where the most arrived comes first and takes the active flows, with what failed before anybody accepted it
        passive.sort_by_key(|(_, views)| std::cmp::Reverse(sum(views).established));
        let failed = sum(&active).failed;
        let how = How { translated: masqueraded, ..How::paired(&active) };
        for (i, (to, mut views)) in passive.into_iter().enumerate() {
            let mut counts = turned(sum(&views));
            if i == 0 {
                counts.opened += failed;
                counts.failed += failed;
            }
            views.append(&mut active);
            self.push(from.clone(), to, views, counts, how);
        }
    }

    fn tie_any(&mut self, active: Nodes<'a>, mut passive: Nodes<'a>, masqueraded: bool) {
        let owners: BTreeSet<End> = passive.iter().flat_map(|(_, views)| views).map(|v| v.end(By::Service)).collect();
        if let (Some(service), 1) = (owners.first(), owners.len()) {
            let views = passive.into_iter().flat_map(|(_, views)| views).collect();
            return self.tie_one(active, service.clone(), views, masqueraded);
        }
        passive.sort_by_key(|(_, views)| std::cmp::Reverse(sum(views).established));
        let first = active[0].0.clone();
        let mut rest = passive.into_iter();
        let (to, mut views) = rest.next().expect("several");
        let how = How { translated: masqueraded, attribution: Attribution::Listener, ..How::paired(&views) };
        for (from, mut own) in active {
            let counts = sum(&own);
            own.append(&mut views);
            self.push(from, to.clone(), own, counts, how);
        }
        for (to, views) in rest {
            self.push(first.clone(), to, views, Counts::default(), how);
        }
    }
}

/// What is known of a tie beside its own views.
#[derive(Clone, Copy)]
struct How {
    paired: bool,
    source: Source,
    attribution: Attribution,
    translated: bool,
}

impl How {
    const ONE_SIDED: How =
        How { paired: false, source: Source::Ebpf, attribution: Attribution::Exact, translated: false };

    fn paired(other: &[View]) -> How {
        let source = other.iter().map(|v| v.flow.source).max().unwrap_or(Source::Ebpf);
        let attribution = other.iter().map(|v| v.flow.attribution).max().unwrap_or(Attribution::Exact);
        How { paired: true, source, attribution, translated: false }
    }
}

fn sum(views: &[View]) -> Counts {
    let mut sum = Counts::default();
    views.iter().for_each(|view| sum.add_beside(&view.flow.counts));
    sum
}

/// What the other end would have counted.
fn turned(counts: Counts) -> Counts {
    Counts { sent: counts.received, received: counts.sent, ..counts }
}
