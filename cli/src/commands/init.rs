//! `faultloom init`: drafts a target file for the user's own application.

use crate::args::Init;
use crate::context::Context;
use app::draft::Confidence;
use app::draft::init::{self as use_case, Drafted, InitSpec};
use app::spec::Version;
use app::text::{plural, printable};
use model::{Exit, Failure};
use serde_json::{Value, json};

pub async fn init(context: &Context, args: &Init) -> Result<Exit, Failure> {
    let spec = InitSpec {
        version: Version,
        from: args.from.clone(),
        attach: args.attach,
        ports: args.ports.clone(),
        output: args.output.clone(),
        name: args.name.clone(),
        force: args.force,
    };
    let drafted = use_case::init(context, &spec).await?;
    if context.common.json {
        println!("{}", report(&drafted));
    } else {
        print(&drafted);
    }
    Ok(Exit::Pass)
}

fn print(drafted: &Drafted) {
    print!("{}", crate::render::draft::table(&drafted.draft));
    for note in &drafted.draft.notes {
        println!(" note: {}", printable(note));
    }
    println!("");
    let output = drafted.output.display();
    match drafted.todos.as_slice() {
        [] => println!("wrote {output}"),
        todos => {
            let count = plural(todos.len() as u64, "TODO");
            println!("wrote {output}; {count} that only you can answer (`up` refuses the file until then):");
            todos.iter().for_each(|todo| println!("   {}", printable(todo)));
        }
    }
    for (at, step) in drafted.next.iter().enumerate() {
        println!("{} {}", if at == 0 { "next:" } else { "     " }, printable(step));
    }
}

fn report(drafted: &Drafted) -> Value {
    let Drafted { draft, output, todos, next } = drafted;
    let field = |key: &str, value: &Value, from: &str, confidence: Confidence| json!({"what": key, "value": value, "from": from, "sure": confidence.name()});
    let services: Vec<Value> = draft
        .services
        .iter()
        .map(|service| {
            let guesses: Vec<Value> =
                service.fields().iter().map(|(key, value, from, confidence)| field(key, value, from, *confidence)).collect();
            let environment: Vec<Value> = service
                .environment
                .iter()
                .map(|(name, guess)| field(name, &json!(guess.value), &guess.from, guess.confidence))
                .collect();
            json!({"name": service.name, "attached": service.attached, "build": service.build.as_ref().map(ToString::to_string), "guesses": guesses, "environment": environment})
        })
        .collect();
    let entry = draft.entry.as_ref().map(|entry| field("entry", &json!(entry.value), &entry.from, entry.confidence));
    json!({
        "file": output, "from": draft.source, "name": draft.name.value, "entry": entry, "services": services,
        "notes": draft.notes, "todos": todos, "next": next,
    })
}
