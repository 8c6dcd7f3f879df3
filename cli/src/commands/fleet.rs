//! `faultloom agent serve` and `agent trust`: hosts exchange their observations.
//!
//! The server is not the agent's process: it needs only permission to read the agent's files.

use crate::args::{AgentServe, AgentTrust};
use crate::commands::agent::state_directory;
use crate::context::Context;
use crate::signals::stop_signal;
use agent::metrics;
use agent::stores::DATABASE;
use app::text::quoted;
use fleet::{AllowList, Fingerprint, Identity, Limits, Server, Slices, Token, serve_metrics};
use flowdb::FlowDb;
use flows::Slice;
use model::{Exit, Failure};
use serde_json::json;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

/// This host's store. Opened for each request, because the agent may create or replace it meanwhile.
struct Store(PathBuf);

impl Slices for Store {
    async fn slice(&self, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
        if !self.0.exists() {
            return Err(Failure::environment("no agent has run on that host yet"));
        }
        let flowdb = FlowDb::read(&self.0.to_string_lossy()).await?;
        let slice = flowdb.slice(from_ms, to_ms).await;
        flowdb.close().await;
        slice
    }
}

pub async fn serve(context: &Context, args: &AgentServe) -> Result<Exit, Failure> {
    let state = state_directory(context, args.state.as_deref());
    let keys = args.keys.clone().unwrap_or_else(|| context.common.home.join("serve"));
    let identity = Identity::load_or_create(&keys)?;
    let token_file = keys.join("token");
    let token = Token::load_or_create(&token_file)?;
    let store = Store(state.join(DATABASE));
    let server = Server::bind(args.listen, &identity, token, store, Limits::default()).await?;
    let (address, fingerprint) = (server.address()?, identity.fingerprint());
    let metrics = match (!args.no_metrics).then_some(args.metrics) {
        Some(at) => {
            let listener = TcpListener::bind(at).await.map_err(|e| {
                Failure::environment(format!("cannot listen on {at}: {e}")).next("choose another with --metrics")
            })?;
            let at = listener.local_addr().ok();
            tokio::spawn(serve_metrics(listener, state.join(metrics::FILE)));
            at
        }
        None => None,
    };
    if context.common.json {
        println!(
            "{}",
            json!({"listens": address, "fingerprint": fingerprint.to_string(), "token": token_file, "metrics": metrics})
        );
    } else {
        println!("serving {} at {address}; Ctrl-C stops", state.display());
        println!("fingerprint {fingerprint}");
        if let Some(at) = metrics {
            println!("metrics at http://{at}/metrics");
        }
        println!(
            "on each host that may query, copy {} and run:\n  faultloom agent trust {address} {fingerprint} --token @{}",
            token_file.display(),
            token_file.file_name().unwrap_or_default().to_string_lossy()
        );
    }
    server.run(stop_signal()?).await;
    Ok(Exit::Pass)
}

/// The list of hosts named by `--hosts`, or the default one.
pub fn hosts_file(context: &Context, argument: Option<&Path>) -> PathBuf {
    argument.map_or_else(|| context.common.home.join("hosts"), Path::to_owned)
}

pub fn trust(context: &Context, args: &AgentTrust) -> Result<Exit, Failure> {
    let file = hosts_file(context, args.hosts.as_deref());
    let fingerprint: Fingerprint = args.fingerprint.parse().map_err(Failure::request)?;
    if args.hosts.is_none() {
        runs::make_home(&context.common.home)?;
    }
    if let Some(path) = args.token.strip_prefix('@') {
        // relative to the list, so that both can be moved together; an invalid token fails now, not at the first map
        Token::load(&file.parent().unwrap_or(Path::new("")).join(path))?;
    } else {
        Token::parse(&args.token).map_err(Failure::request)?;
    }
    AllowList::trust(&file, &args.address, fingerprint, &args.token)?;
    if context.common.json {
        println!("{}", json!({"trusted": args.address, "hosts": file}));
    } else {
        println!("added {} to {}", args.address, file.display());
        println!("next: {} --hosts {}", context.command("map"), quoted(&file.display().to_string()));
    }
    Ok(Exit::Pass)
}
