//! `faultloom env`: the exact lines by which a service that `up` does not start gets its SDK and its keys.
//!
//! The keys are made here if there are none yet, in a file that only their owner can read, and are not printed.

use crate::args::Env;
use crate::context::Context;
use app::installation::{Form, Installation};
use app::sdk_paths;
use app::target_session;
use app::text::quoted;
use model::{Exit, Failure};
use serde_json::{Value, json};
use target::{Sdk, Service, Target, Trust};

pub fn env(context: &Context, args: &Env) -> Result<Exit, Failure> {
    let sdk = Sdk::parse(&args.language).filter(|sdk| *sdk != Sdk::None).ok_or_else(|| {
        Failure::request(format!("no SDK for '{}'", args.language)).next("one of go, java, python, node")
    })?;
    let form = Form::parse(&args.form);
    let target = context.target_file().map(Target::load).transpose()?;
    let name = target.as_ref().map_or("app", |target| target.name.as_str());
    let services = services(args, sdk, target.as_ref())?;
    runs::make_home(&context.common.home)?;
    let (trust_file, status) = (target_session::kept_trust(context, name), target_session::kept_status(context, name));
    let made = !trust_file.exists();
    let trust = Trust::kept(&trust_file, name)?;
    std::fs::create_dir_all(&status)
        .map_err(|error| Failure::environment(format!("cannot make {}", status.display())).why(error.to_string()))?;
    let place = match sdk {
        Sdk::Java => sdk_paths::java()?,
        Sdk::Node => sdk_paths::node()?,
        Sdk::Python => sdk_paths::python()?,
        Sdk::Go | Sdk::None => sdk_paths::folder("go")?,
    };
    let installations: Vec<Installation> = services
        .iter()
        .map(|(name, service)| Installation {
            service: name.clone(),
            target: target.as_ref(),
            described: *service,
            sdk,
            place: place.clone(),
            trust_file: trust_file.clone(),
            trust: trust.text(),
            status: status.clone(),
            show_keys: args.show_keys,
        })
        .collect();
    if context.common.json {
        let all: Vec<Value> = installations
            .iter()
            .map(|one| {
                let environment: serde_json::Map<String, Value> =
                    one.environment().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
                json!({"service": one.service, "language": sdk, "for": args.form, "environment": environment, "text": one.text(form)})
            })
            .collect();
        println!("{}", json!({"services": all, "trust_file": trust_file, "made": made}));
        return Ok(Exit::Pass);
    }
    for (at, one) in installations.iter().enumerate() {
        if at > 0 {
            println!("");
        }
        print!("{}", one.text(form));
    }
    let verb = if made { "made" } else { "used" };
    context.say(format!("\nkeys {verb}: {} (readable by you only)", trust_file.display()));
    if let Some(up) = target::read_state(&target_session::state_dir(context))?.filter(target::is_alive)
        && up.trust_file != trust_file
    {
        context.say("the target that is up here was started with other keys: `faultloom down`, then `up`, takes these");
    }
    let others: Vec<&str> = Form::NAMES.into_iter().filter(|name| *name != args.form).collect();
    context.say(format!("other forms: --for {}", others.join(", --for ")));
    context.say(format!("next: start it like that, then: {} --target", context.command("doctor")));
    Ok(Exit::Pass)
}

/// The services that are asked for: one by name, or all of the language.
fn services<'a>(
    args: &Env,
    sdk: Sdk,
    target: Option<&'a Target>,
) -> Result<Vec<(String, Option<&'a Service>)>, Failure> {
    match (&args.service, target) {
        (Some(name), Some(target)) => {
            let known = target.services().iter().map(|service| service.name.as_str()).collect::<Vec<_>>();
            let service = target.service(name).ok_or_else(|| {
                Failure::request(format!("no service is named '{name}'")).why(format!(
                    "services of {}: {}",
                    target.file.display(),
                    known.join(", ")
                ))
            })?;
            Ok(vec![(name.clone(), Some(service))])
        }
        (Some(name), None) => Ok(vec![(name.clone(), None)]),
        (None, Some(target)) => {
            let of_it: Vec<(String, Option<&Service>)> = target
                .services()
                .iter()
                .filter(|service| service.sdk == sdk)
                .map(|service| (service.name.clone(), Some(service)))
                .collect();
            match of_it.is_empty() {
                false => Ok(of_it),
                true => Err(Failure::request(format!("no service of the target says sdk: {}", sdk.name()))
                    .why(described(target))
                    .next("write it into the target file, or name one with --service NAME")),
            }
        }
        (None, None) => Err(Failure::request("which service? there is no target file here")
            .next("name it with --service NAME, or draft a target file: faultloom init")),
    }
}

fn described(target: &Target) -> String {
    let each = target.services().iter().map(|service| format!("{}: {}", quoted(&service.name), service.sdk.name()));
    each.collect::<Vec<_>>().join(", ")
}
