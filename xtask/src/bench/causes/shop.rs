//! The planted bugs of the shop: for each seed, all four pages.
//!
//! The shop is started once. Each seed has its own frontend and checkout service, which alone depend on the seed, on
//! ports of their own.

use super::expected::{Comparison, Finding, Page};
use super::{Size, read_pages, sweep, tool};
use crate::setup;
use crate::shell::{command, quiet, root};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TARGET: &str = "lab/shop/target.yaml";
const FRONTEND_PORT: u16 = 8081;
const CHECKOUT_PORT: u16 = 7019;
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The services that both call, with the ports of the target file.
const SERVICES: [(&str, u16); 8] = [
    ("currency", 7001),
    ("catalogue", 7002),
    ("cart", 7003),
    ("ads", 7004),
    ("recommendation", 7005),
    ("shipping", 7006),
    ("payment", 7007),
    ("email", 7008),
];

pub fn measure(size: &Size) -> Result<Comparison, String> {
    setup::build_tool()?;
    setup::build_shop()?;
    let pages = read_pages("lab/shop/expected.json")?;
    let home = root().join("out/bench/causes/shop");
    let _ = std::fs::remove_dir_all(&home);
    quiet(tool(TARGET, &home).args(["up", "--detach"]))?;
    let measured = all_seeds(size, &pages, &home);
    quiet(tool(TARGET, &home).arg("down"))?;
    measured
}

fn all_seeds(size: &Size, pages: &[Page], home: &Path) -> Result<Comparison, String> {
    let seeds = if size.quick { 3 } else { 200 };
    let trust_file = trust_file(home)?;
    let mut compared = Comparison::default();
    // the bugs of the paper, then those of the seeds
    let choices = std::iter::once("paper".to_owned());
    let choices = choices.chain((0..seeds).map(|i| format!("random:{}", size.seed.wrapping_add(i))));
    for (i, bugs) in choices.enumerate() {
        let shop = Planted::start(&bugs, &trust_file)?;
        for page in pages {
            let planted = page.planted.iter().filter(|finding| shop.sites.contains(&finding.id));
            let planted: Vec<Finding> = planted.map(|finding| finding.beside(&shop.sites)).collect();
            let expected: Vec<&Finding> = page.findings.iter().chain(&planted).collect();
            let entry = format!("http://127.0.0.1:{FRONTEND_PORT}");
            fill_cart(&entry)?;
            let place = format!("SHOP_BUGS={bugs} {}", page.name);
            sweep(tool(TARGET, home), page, &entry, &place, &expected, &mut compared)?;
        }
        if i % 20 == 0 {
            println!(" SHOP_BUGS={bugs}: {}", shop.sites.join(", "));
        }
    }
    Ok(compared)
}

/// Keys of the shop that is up.
fn trust_file(home: &Path) -> Result<PathBuf, String> {
    let output = quiet(tool(TARGET, home).args(["ps", "--json"]))?;
    let status: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("faultloom ps: {e}"))?;
    let file = status["state"]["trust_file"].as_str().ok_or("faultloom ps reports no trust file")?;
    Ok(PathBuf::from(file))
}

/// The cart of the customer without a name, which the pages show.
fn fill_cart(entry: &str) -> Result<(), String> {
    let post = |path: &str, data: &str| {
        let url = format!("{entry}{path}");
        let arguments = ["--silent", "--show-error", "--fail-with-body", &url, "-H", "Content-Type: application/json"];
        quiet(command("curl", &arguments).args(["-d", data])).map(|_| ())
    };
    // a cart holds at most 99 pieces
    post("/api/cart/empty", "{}")?;
    post("/api/cart", r#"{"product_id": "mug-01", "quantity": 1}"#)
}

/// A frontend and a checkout service with planted bugs. Killed when dropped.
struct Planted {
    children: [Child; 2],
    sites: Vec<String>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Planted {
    fn start(bugs: &str, trust_file: &Path) -> Result<Planted, String> {
        let mut checkout = start_service("checkout", CHECKOUT_PORT, bugs, trust_file)?;
        let frontend = start_service("frontend", FRONTEND_PORT, bugs, trust_file);
        let frontend = frontend.inspect_err(|_| drop(checkout.kill().and_then(|()| checkout.wait())))?;
        let mut shop = Planted { children: [checkout, frontend], sites: Vec::new() };
        shop.sites = planted_sites(&mut shop.children[1])?;
        // keep the other pipe empty
        drain(&mut shop.children[0]);
        drain(&mut shop.children[1]);
        let begin = Instant::now();
        for port in [CHECKOUT_PORT, FRONTEND_PORT] {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                if begin.elapsed() > START_TIMEOUT {
                    return Err(format!("SHOP_BUGS={bugs}: nothing listens on port {port}"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(shop)
    }
}

fn start_service(name: &str, port: u16, bugs: &str, trust_file: &Path) -> Result<Child, String> {
    let mut call = Command::new(root().join("out/shop").join(name));
    let mut peers: Vec<String> = Vec::new();
    for (service, port) in SERVICES {
        let address = format!("127.0.0.1:{port}");
        call.env(format!("{}_ADDR", service.to_uppercase()), &address);
        peers.push(format!("{address}={service}"));
    }
    peers.push(format!("127.0.0.1:{CHECKOUT_PORT}=checkout"));
    call.env("CHECKOUT_ADDR", format!("127.0.0.1:{CHECKOUT_PORT}"))
        .env("PORT", port.to_string())
        .env("SHOP_BUGS", bugs)
        .env("FAULTLOOM_TRUST_FILE", trust_file)
        .env("FAULTLOOM_SERVICE", name)
        .env("FAULTLOOM_PEERS", peers.join(","));
    call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    call.spawn().map_err(|e| format!("{name}: {e}"))
}

/// The frontend logs them: `planted bugs: home.cart, product.cart`.
fn planted_sites(frontend: &mut Child) -> Result<Vec<String>, String> {
    let log = frontend.stderr.take().ok_or("the frontend has no log")?;
    let mut log = BufReader::new(log);
    let mut line = String::new();
    loop {
        line.clear();
        if log.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
            return Err("the frontend ended before it logged its planted bugs".to_owned());
        }
        if let Some((_, sites)) = line.split_once("planted bugs: ") {
            frontend.stderr = Some(log.into_inner());
            return Ok(sites.trim().split(", ").map(str::to_owned).collect());
        }
    }
}

fn drain(child: &mut Child) {
    if let Some(mut log) = child.stderr.take() {
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    }
}
