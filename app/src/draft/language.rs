//! Detects the language of a service from its files, its image or its program.

use super::{Guess, Service, guess, likely, stated};
use std::io::Read;
use std::path::Path;
use target::Sdk;

/// Files of a language's projects, the most specific first.
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

/// Databases, caches, queues and proxies: their image or program, and their usual port.
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
    let program = program_word(words)?;
    let program = program.rsplit('/').next().unwrap_or(program);
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let sdk = PROGRAMS.iter().find(|(own, _)| *own == program || *own == plain)?.1;
    Some(likely(sdk, format!("the command starts {program}")))
}

/// By the binary that a command runs, if it is a file below `folder`. Only Go marks its binaries.
pub fn binary_sdk(words: &[String], folder: &Path) -> Option<Guess<Sdk>> {
    let program = program_word(words).filter(|program| program.contains('/'))?;
    built_by_go(&folder.join(program)).then(|| likely(Sdk::Go, format!("{program} was built by Go")))
}

/// Go puts a mark into every binary it builds, before its list of modules.
pub fn built_by_go(program: &Path) -> bool {
    const MARK: &[u8] = b"\xff Go buildinf:";
    const BYTES_MAX: u64 = 256 << 20;
    let Ok(file) = std::fs::File::open(program) else { return false };
    let mut file = file.take(BYTES_MAX);
    let mut window = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    while let Ok(read @ 1..) = file.read(&mut chunk) {
        window.extend_from_slice(&chunk[..read]);
        if window.windows(MARK.len()).any(|bytes| bytes == MARK) {
            return true;
        }
        window.drain(..window.len().saturating_sub(MARK.len()));
    }
    false
}

fn program_word(words: &[String]) -> Option<&str> {
    let skipped = ["exec", "env", "nice", "dumb-init", "tini", "--", "sudo", "sh", "bash", "-c"];
    words.iter().find(|word| !skipped.contains(&word.as_str()) && !word.contains('=')).map(String::as_str)
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
    service.sdk = stated(Sdk::None, format!("{name} is a third-party program; faults at its callers still work"));
    service.support = Some(likely(true, format!("{name}: excluded from fault spaces")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_follow_from_the_last_word_of_images_and_programs() {
        assert_eq!(image_sdk("docker.io/library/python:3.12-slim"), Some(Sdk::Python));
        assert_eq!(image_sdk("registry.example:5000/team/api"), None);
        assert_eq!(support("bitnami/redis:7@sha256:00"), Some(("redis", 6379)));
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let sdk = |text: &str| program_sdk(&words(text)).map(|guess| guess.value);
        assert_eq!(sdk("exec /usr/bin/python3.11 app.py"), Some(Sdk::Python));
        assert_eq!(sdk("PORT=1 node a.js"), Some(Sdk::Node));
        assert_eq!(sdk("./bin/api"), None);
    }

    #[test]
    fn a_binary_that_go_built_is_recognized() {
        let folder = std::env::temp_dir().join(format!("faultloom-draft-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        let mut elf = b"\x7fELF".to_vec();
        elf.resize(64, 0);
        std::fs::write(folder.join("bin/c"), &elf).unwrap();
        elf.extend(b"\xff Go buildinf:");
        std::fs::write(folder.join("bin/go"), &elf).unwrap();
        let sdk = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            binary_sdk(&words, &folder).map(|guess| guess.value)
        };
        assert_eq!(sdk("PORT=1 exec bin/go --fast"), Some(Sdk::Go));
        assert_eq!((sdk("./bin/c"), sdk("bin/none"), sdk("go")), (None, None, None));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
