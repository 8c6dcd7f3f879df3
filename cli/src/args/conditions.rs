//! `--expect-json` and `--after`: behind `--after`, the values are those of its reply. The order of options is only
//! known to clap's matches, so these two are read from there.

use app::checks::After;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Of the request's own reply.
    pub json: Vec<String>,
    pub after: Vec<After>,
}

const JSON: &str = "expect_json";
const AFTER: &str = "after";
const HEADING: &str = "Checks";

impl Args for Conditions {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(id).long(name).value_name(value).action(ArgAction::Append).help_heading(HEADING).help(help)
        };
        command
            .arg(option(
                JSON,
                "expect-json",
                "PATH=VALUE",
                "A value the JSON body must have: '$.cart.size=0'; may be repeated. Behind --after: of its reply",
            ))
            .arg(option(
                AFTER,
                "after",
                "GET URL",
                "Send this after each case, without faults, to query the state: 'GET /cart'; may be repeated. \
                 Each needs an --expect-json behind it",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Conditions::augment_args(command)
    }
}

impl FromArgMatches for Conditions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Conditions, Error> {
        let placed = |id: &str| -> Vec<(usize, String)> {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            matches.indices_of(id).into_iter().flatten().zip(values).collect()
        };
        let mut conditions = Conditions::default();
        let mut afters: Vec<(usize, After)> = Vec::new();
        for (at, request) in placed(AFTER) {
            afters.push((at, After { request, json: Vec::new() }));
        }
        for (at, json) in placed(JSON) {
            match afters.iter_mut().rfind(|(before, _)| *before < at) {
                Some((_, after)) => after.json.push(json),
                None => conditions.json.push(json),
            }
        }
        conditions.after = afters.into_iter().map(|(_, after)| after).collect();
        Ok(conditions)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Conditions::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Args, Command};
    use std::ffi::OsString;

    #[test]
    fn values_behind_after_are_those_of_its_reply() {
        let words = [
            "faultloom",
            "sweep",
            "--expect-json",
            "$.a=1",
            "--after",
            "GET /b",
            "-c",
            "2",
            "--expect-json",
            "$.b=1",
            "--expect-json=$.b=2",
            "--after",
            "GET /c",
            "--expect-json",
            "$.c=1",
        ];
        let args = Args::parse_words(words.map(OsString::from).to_vec()).unwrap();
        let Command::Sweep(sweep) = args.command else { panic!() };
        let expect = sweep.expect.spec();
        assert_eq!(expect.json, ["$.a=1"]);
        let after: Vec<(&str, Vec<&str>)> = (expect.after.iter())
            .map(|after| (after.request.as_str(), after.json.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(after, [("GET /b", vec!["$.b=1", "$.b=2"]), ("GET /c", vec!["$.c=1"])]);
    }
}
