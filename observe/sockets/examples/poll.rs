//! Polls this host and prints the cost of a poll: `cargo run --release -p sockets --example poll -- [MODE] [POLLS]
//! [SECONDS BETWEEN]`. The last window is printed with its services.

use rustix::time::{ClockId, clock_gettime};
use sockets::backend::{Mode, select};
use sockets::identity::Identifier;
use std::time::Duration;

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mode: Mode = arguments.next().as_deref().unwrap_or("polling").parse()?;
    let polls: u32 = arguments.next().as_deref().unwrap_or("1").parse()?;
    let between = Duration::from_secs_f64(arguments.next().as_deref().unwrap_or("1").parse()?);
    let mut selection = select(mode)?;
    let mut identifier = Identifier::start()?;
    let mut costs = Vec::new();
    let mut last = None;
    for poll in 0..polls {
        if poll > 0 {
            std::thread::sleep(between);
        }
        let before = cpu();
        let collected_sockets = selection.collector.collect()?;
        let collected = cpu();
        last = Some(identifier.identify(selection.collector.source(), collected_sockets));
        costs.push((collected - before, cpu() - collected));
    }
    let Some(window) = last else { return Ok(()) };
    let names: std::collections::HashMap<_, _> = window.services.iter().map(|s| (&s.key, s)).collect();
    for flow in &window.flows {
        let name = names.get(&flow.service).map_or("?", |service| &service.name);
        let pid = flow.process.map_or("-".to_owned(), |process| process.pid.to_string());
        println!("{:?} {name} [{pid}] {} {:?} {:?}", flow.side, flow.link.passive, flow.attribution, flow.counts);
    }
    for listener in window.listeners.iter().flatten() {
        println!("listens {} {}", names.get(&listener.service).map_or("?", |service| &service.name), listener.at);
    }
    println!(
        "rejected: {:?}\nlimits: {:?}\ntranslation unavailable: {:?}",
        selection.rejections,
        selection.limits,
        identifier.translation_unavailable()
    );
    println!(
        "{} flows, {} services, {} processes, {:?}",
        window.flows.len(),
        window.services.len(),
        window.processes.len(),
        window.losses
    );
    for (poll, (collect, identify)) in costs.iter().enumerate() {
        println!(
            "poll {poll}: collect {:.1} ms, identify {:.1} ms",
            collect.as_secs_f64() * 1e3,
            identify.as_secs_f64() * 1e3
        );
    }
    Ok(())
}
