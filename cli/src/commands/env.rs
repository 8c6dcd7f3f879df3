//! `faultloom env`: how services get their SDK and keys if `up` does not start them.

use crate::args::Env;
use crate::context::Context;
use app::installation::Form;
use app::installation_plan::{self, EnvSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::{Map, Value, json};

pub fn env(context: &Context, args: &Env) -> Result<Exit, Failure> {
    let spec = EnvSpec {
        version: Version,
        language: args.language.clone(),
        service: args.service.clone(),
        form: Form::parse(&args.form),
        show_keys: args.show_keys,
        create_keys: args.create_keys,
        manifests: args.manifests.clone(),
    };
    let plan = installation_plan::plan(context, &spec)?;
    if context.common.json {
        let services: Vec<Value> = plan
            .services
            .iter()
            .map(|one| {
                let environment: Map<String, Value> =
                    one.environment.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
                json!({"service": one.service, "language": plan.sdk, "for": args.form, "environment": environment,
                    "text": one.text})
            })
            .collect();
        println!(
            "{}",
            json!({"services": services, "preamble": plan.preamble, "trust_file": plan.trust_file,
                "made": plan.created_keys, "create_keys": plan.create_keys})
        );
        return Ok(Exit::Pass);
    }
    let texts: Vec<&str> = plan.services.iter().map(|one| one.text.as_str()).collect();
    let between = if args.form == "kubernetes" { "---\n" } else { "\n" };
    print!("{}{}", plan.preamble, texts.join(between));
    let file = plan.trust_file.display();
    match (&plan.create_keys, plan.created_keys) {
        (Some(command), _) => context.note(format!("\nno keys yet: {command}")),
        (None, true) => context.note(format!("\nkeys created: {file} (readable only by you)")),
        (None, false) => context.note(format!("\nkeys used: {file} (readable only by you)")),
    }
    if plan.up_uses_other_keys {
        context.note("the target that is up here uses other keys: run `faultloom down`, then `up`");
    }
    let others: Vec<&str> = Form::NAMES.into_iter().filter(|name| *name != args.form).collect();
    context.note(format!("other forms: --for {}", others.join(", --for ")));
    context.note(format!("next: start it like that, then: {} --target", context.command("doctor")));
    Ok(Exit::Pass)
}
