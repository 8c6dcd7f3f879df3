//! In which language a service is written, told from its files, its image or its program.

use super::{Guess, Service, guess, likely, stated};
use std::path::Path;
use target::Sdk;

/// Files that say it, the stronger first.
const FILES: [(&str, Sdk); 11] = [
    ("go.mod", Sdk::Go),
    ("pom.xml", Sdk::Java),
    ("build.gradle", Sdk::Java),
    ("build.gradle.kts", Sdk::Java),
    ("requirements.txt", Sdk::Python),
    ("pyproject.toml", Sdk::Python),
    ("Pipfile", Sdk::Python),
    ("setup.py", Sdk::Python),
    ("manage.py", Sdk::Python),
    ("package.json", Sdk::Node),
    ("main.go", Sdk::Go),
];

/// First words of image names.
const IMAGES: [(&str, Sdk); 14] = [
    ("golang", Sdk::Go),
    ("node", Sdk::Node),
    ("python", Sdk::Python),
    ("pypy", Sdk::Python),
    ("eclipse-temurin", Sdk::Java),
    ("openjdk", Sdk::Java),
    ("amazoncorretto", Sdk::Java),
    ("ibm-semeru-runtimes", Sdk::Java),
    ("maven", Sdk::Java),
    ("gradle", Sdk::Java),
    ("tomcat", Sdk::Java),
    ("jetty", Sdk::Java),
    ("java", Sdk::Java),
    ("nodejs", Sdk::Node),
];

const PROGRAMS: [(&str, Sdk); 24] = [
    ("node", Sdk::Node),
    ("nodejs", Sdk::Node),
    ("npm", Sdk::Node),
    ("npx", Sdk::Node),
    ("yarn", Sdk::Node),
    ("pnpm", Sdk::Node),
    ("tsx", Sdk::Node),
    ("ts-node", Sdk::Node),
    ("nodemon", Sdk::Node),
    ("java", Sdk::Java),
    ("mvn", Sdk::Java),
    ("mvnw", Sdk::Java),
    ("gradle", Sdk::Java),
    ("gradlew", Sdk::Java),
    ("python", Sdk::Python),
    ("python3", Sdk::Python),
    ("gunicorn", Sdk::Python),
    ("uvicorn", Sdk::Python),
    ("flask", Sdk::Python),
    ("hypercorn", Sdk::Python),
    ("waitress-serve", Sdk::Python),
    ("celery", Sdk::Python),
    ("daphne", Sdk::Python),
    ("go", Sdk::Go),
];

/// Servers that are no application's own service: their image or program, and the port they listen on.
const SUPPORT: [(&str, u16); 30] = [
    ("postgres", 5432),
    ("postgis", 5432),
    ("timescaledb", 5432),
    ("mysql", 3306),
    ("mysqld", 3306),
    ("mariadb", 3306),
    ("mariadbd", 3306),
    ("mongo", 27017),
    ("mongod", 27017),
    ("redis", 6379),
    ("redis-server", 6379),
    ("valkey", 6379),
    ("valkey-server", 6379),
    ("memcached", 11211),
    ("rabbitmq", 5672),
    ("beam.smp", 5672),
    ("kafka", 9092),
    ("zookeeper", 2181),
    ("nats", 4222),
    ("nats-server", 4222),
    ("etcd", 2379),
    ("consul", 8500),
    ("elasticsearch", 9200),
    ("opensearch", 9200),
    ("cassandra", 9042),
    ("clickhouse-server", 9000),
    ("minio", 9000),
    ("nginx", 80),
    ("traefik", 80),
    ("jaeger", 16686),
];

pub fn folder_sdk(folder: &Path, shown: &str) -> Option<Guess<Sdk>> {
    let (file, sdk) = FILES.iter().find(|(file, _)| folder.join(file).is_file())?;
    Some(likely(*sdk, format!("{file} in {shown}")))
}

pub fn image_sdk(image: &str) -> Option<Sdk> {
    let name = image_name(image);
    IMAGES.iter().find(|(own, _)| *own == name).map(|(_, sdk)| *sdk)
}

/// By the program of a command; a path or a version (`python3.11`) does not matter.
pub fn program_sdk(words: &[String]) -> Option<Guess<Sdk>> {
    let skipped = ["exec", "env", "nice", "dumb-init", "tini", "--", "sudo", "sh", "bash", "-c"];
    let program = words.iter().find(|word| !skipped.contains(&word.as_str()) && !word.contains('='))?;
    let program = program.rsplit('/').next().unwrap_or(program);
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let sdk = PROGRAMS.iter().find(|(own, _)| *own == program || *own == plain)?.1;
    Some(likely(sdk, format!("the command starts {program}")))
}

/// A database, a cache, a queue: its name and its usual port.
pub fn support(image_or_program: &str) -> Option<(&'static str, u16)> {
    let name = image_name(image_or_program);
    SUPPORT.iter().find(|(own, _)| *own == name).copied()
}

/// `registry:5000/team/redis:7-alpine@sha256:…` is `redis`.
pub fn image_name(image: &str) -> &str {
    let last = image.split('@').next().unwrap_or(image).rsplit('/').next().unwrap_or(image);
    last.split(':').next().unwrap_or(last)
}

pub fn none(from: impl Into<String>) -> Guess<Sdk> {
    guess(Sdk::None, from)
}

/// The mark of a cache, a database, a queue.
pub fn mark_support(service: &mut Service, name: &str) {
    service.sdk = stated(Sdk::None, format!("{name} is no program of yours; faults at its callers still work"));
    service.support = Some(likely(true, format!("{name}: left out of fault spaces")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_programs_are_known_by_their_last_word() {
        assert_eq!(image_sdk("docker.io/library/python:3.12-slim"), Some(Sdk::Python));
        assert_eq!(image_sdk("registry.example:5000/team/api"), None);
        assert_eq!(support("bitnami/redis:7@sha256:00"), Some(("redis", 6379)));
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let sdk = |text: &str| program_sdk(&words(text)).map(|guess| guess.value);
        assert_eq!(sdk("exec /usr/bin/python3.11 app.py"), Some(Sdk::Python));
        assert_eq!(sdk("PORT=1 node a.js"), Some(Sdk::Node));
        assert_eq!(sdk("./bin/api"), None);
    }
}
