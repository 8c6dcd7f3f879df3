//! How the image of a Dockerfile is started: the last stage's command, folder, ports and variables.

use super::language::image_sdk;
use super::{Command, Guess, likely};
use target::Sdk;

#[derive(Debug, Default)]
pub struct Dockerfile {
    /// Images of all stages, the last stage first.
    images: Vec<String>,
    pub workdir: Option<String>,
    pub entrypoint: Option<Command>,
    pub command: Option<Command>,
    pub exposed: Vec<u16>,
    pub environment: Vec<(String, String)>,
}

impl Dockerfile {
    pub fn parse(text: &str) -> Dockerfile {
        let mut file = Dockerfile::default();
        for line in instructions(text) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
            let rest = rest.trim();
            match word.to_ascii_uppercase().as_str() {
                "FROM" => {
                    let image = rest.split_whitespace().find(|word| !word.starts_with("--")).unwrap_or_default();
                    let images = [vec![image.to_owned()], std::mem::take(&mut file.images)].concat();
                    file = Dockerfile { images, ..Dockerfile::default() };
                }
                "WORKDIR" => file.workdir = Some(rest.trim_end_matches('/').to_owned()),
                "ENTRYPOINT" => file.entrypoint = form(rest),
                "CMD" => file.command = form(rest),
                "EXPOSE" => file.exposed.extend(
                    rest.split_whitespace()
                        .filter(|port| !port.ends_with("/udp"))
                        .filter_map(|port| port.trim_end_matches("/tcp").parse::<u16>().ok()),
                ),
                "ENV" => file.environment.extend(variables(rest)),
                _ => {}
            }
        }
        file
    }

    /// The language of the latest stage whose image has one.
    pub fn sdk(&self, shown: &str) -> Option<Guess<Sdk>> {
        self.images.iter().find_map(|image| image_sdk(image).map(|sdk| likely(sdk, format!("FROM {image} in {shown}"))))
    }

    /// The last stage's image.
    pub fn image(&self) -> &str {
        self.images.first().map_or("", String::as_str)
    }

    /// Entrypoint and command together, as Docker joins them.
    pub fn start(&self) -> Option<Command> {
        join(self.entrypoint.clone(), self.command.clone())
    }
}

pub fn join(entrypoint: Option<Command>, command: Option<Command>) -> Option<Command> {
    match (entrypoint, command) {
        (Some(Command::Words(first)), Some(Command::Words(rest))) => Some(Command::Words([first, rest].concat())),
        (Some(entrypoint), _) => Some(entrypoint),
        (None, command) => command,
    }
}

/// Lines without comments, continued ones joined.
fn instructions(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        match line.trim_end().strip_suffix('\\') {
            Some(continued) => current += continued,
            None => {
                current += line;
                lines.push(std::mem::take(&mut current).trim().to_owned());
            }
        }
    }
    lines.push(current.trim().to_owned());
    lines.retain(|line| !line.is_empty());
    lines
}

/// `["a", "b"]` or a shell line.
fn form(text: &str) -> Option<Command> {
    if text.is_empty() {
        return None;
    }
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(words) => (!words.is_empty()).then_some(Command::Words(words)),
        Err(_) => Some(Command::Shell(text.to_owned())),
    }
}

/// `A=1 B="two words"` or the old `A one value`.
fn variables(text: &str) -> Vec<(String, String)> {
    match text.split_once(char::is_whitespace) {
        Some((name, value)) if !name.contains('=') => vec![(name.to_owned(), value.trim().to_owned())],
        _ => super::local_command::words(text)
            .iter()
            .filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_of_the_last_stage_and_the_language_may_be_that_of_an_earlier_one() {
        let file = Dockerfile::parse(
            "FROM golang:1.24 AS build\nRUN go build -o /api \\\n  ./cmd/api\nCMD [\"x\"]\n# comment\n\
             FROM gcr.io/distroless/static\nENV PORT=8080 NAME=\"a b\"\nEXPOSE 8080/tcp 53/udp\nENTRYPOINT [\"/api\"]\nCMD [\"-v\"]\n",
        );
        assert_eq!(file.sdk("d").unwrap().value, Sdk::Go);
        assert_eq!(file.start(), Some(Command::Words(vec!["/api".into(), "-v".into()])));
        assert_eq!(file.exposed, [8080]);
        assert_eq!(file.environment, [("PORT".into(), "8080".into()), ("NAME".into(), "a b".into())]);
        let shell = Dockerfile::parse("FROM node:22\nWORKDIR /app/\nCMD node server.js\n");
        assert_eq!(shell.start(), Some(Command::Shell("node server.js".into())));
        assert_eq!(shell.workdir.as_deref(), Some("/app"));
    }
}
