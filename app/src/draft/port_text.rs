//! Ports in texts: in the words of a command, in the value of a variable.

/// Flags whose value is a port or an address.
const FLAGS: [&str; 12] = [
    "--port",
    "-p",
    "-port",
    "--listen",
    "-l",
    "--bind",
    "-b",
    "--addr",
    "-addr",
    "--http-port",
    "--server.port",
    "-P",
];

/// The port that a command listens on: `--port 8001`, `--port=8001`, `-b 0.0.0.0:8001`, `-Dserver.port=8001`.
pub fn in_command(words: &[String]) -> Option<u16> {
    for (at, word) in words.iter().enumerate() {
        if let Some((flag, value)) = word.split_once('=') {
            let plain = flag.trim_start_matches("-D").to_ascii_lowercase();
            if (FLAGS.contains(&flag) || plain == "server.port" || plain == "port" || plain == "quarkus.http.port")
                && let Some(port) = at_end(value)
            {
                return Some(port);
            }
        }
        if FLAGS.contains(&word.as_str())
            && let Some(port) = words.get(at + 1).and_then(|next| at_end(next))
        {
            return Some(port);
        }
    }
    // `manage.py runserver 0.0.0.0:8000`, `http.server 8000`
    let listening = ["runserver", "http.server"];
    let at = words.iter().position(|word| listening.contains(&word.as_str()))?;
    words.get(at + 1).and_then(|next| at_end(next))
}

/// The port in a variable that sets where its service listens: `PORT=8001`, `LISTEN_ADDR=:8001`.
pub fn in_variable(name: &str, value: &str) -> Option<u16> {
    let name = name.to_ascii_uppercase();
    let own = ["PORT", "LISTEN", "LISTEN_ADDR", "LISTEN_ADDRESS", "HTTP_PORT", "GRPC_PORT", "SERVER_PORT", "APP_PORT"];
    let own = own.contains(&name.as_str())
        || ["BIND", "BIND_ADDR", "HTTP_ADDR", "GRPC_ADDR", "ADDR"].contains(&name.as_str());
    if own { at_end(value) } else { None }
}

/// `8001`, `:8001` or `host:8001`.
pub fn at_end(text: &str) -> Option<u16> {
    let last = text.rsplit(':').next().unwrap_or(text);
    last.parse::<u16>().ok().filter(|port| *port > 0)
}

/// The text with that port in place of another, if it ends with it.
pub fn replaced(text: &str, from: u16, to: u16) -> Option<String> {
    (at_end(text)? == from).then(|| format!("{}{to}", &text[..text.len() - from.to_string().len()]))
}

/// The same in a command; `None` if it does not name the port.
pub fn replaced_in_command(words: &[String], from: u16, to: u16) -> Option<Vec<String>> {
    (in_command(words)? == from).then(|| {
        let put = |word: &String| {
            let (flag, value) = word.split_once('=').map_or(("", word.as_str()), |(flag, value)| (flag, value));
            match (flag, replaced(value, from, to)) {
                (_, None) => word.clone(),
                ("", Some(value)) => value,
                (flag, Some(value)) => format!("{flag}={value}"),
            }
        };
        words.iter().map(put).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn ports_are_found_in_flags_and_variables() {
        for (text, port) in [
            ("uvicorn app:app --host 0.0.0.0 --port 8001", Some(8001)),
            ("gunicorn -b 127.0.0.1:8002 web:app", Some(8002)),
            ("java -Dserver.port=8003 -jar a.jar", Some(8003)),
            ("java -jar a.jar --server.port=8004", Some(8004)),
            ("python manage.py runserver 0.0.0.0:8005", Some(8005)),
            ("node server.js", None),
            ("./api -v 9", None),
        ] {
            assert_eq!(in_command(&words(text)), port, "{text}");
        }
        assert_eq!(in_variable("LISTEN_ADDR", ":7001"), Some(7001));
        assert_eq!(in_variable("DB_PORT", "5432"), None);
        assert_eq!(
            replaced_in_command(&words("x -b 0.0.0.0:80 --n=80"), 80, 8080).unwrap().join(" "),
            "x -b 0.0.0.0:8080 --n=8080"
        );
    }
}
