//! `faultloom go` and `faultloom python`: every argument reaches the wrapped program.

use crate::support::{Completed, Home, Started};

/// With stand-ins for both programs, which print their arguments.
fn wrapped(home: &Home, arguments: &[&str]) -> Completed {
    let print = "#!/bin/sh\necho \"$@\"\n";
    let executable = |name: &str, text: &str| {
        let path = home.write(name, text);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    std::fs::create_dir_all(home.file("bin")).unwrap();
    let python = executable("bin/python", print);
    let go_wrapper = executable("go-wrapper", print);
    // called as `go build -o BINARY …`
    executable("bin/go", &format!("#!/bin/sh\nmkdir -p \"$(dirname \"$3\")\"\ncp {} \"$3\"\n", go_wrapper.display()));
    let mut command = home.command(arguments);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([home.file("bin")].into_iter().chain(std::env::split_paths(&path))).unwrap();
    command.env("PATH", path).env("PYTHON", python).env("XDG_CACHE_HOME", home.file("cache"));
    Started::new(command).wait()
}

#[test]
fn options_after_the_verb_are_those_of_the_wrapped_program() {
    let home = Home::new("wrap");
    for verb in ["python", "go"] {
        for arguments in ["-v", "-vv -q", "--json --home x", "-t x.yaml --trust y", "--verbose", "--help", "run x -v"] {
            let words: Vec<&str> = std::iter::once(verb).chain(arguments.split(' ')).collect();
            let ran = wrapped(&home, &words).exits(0);
            assert_eq!(ran.out, format!("{arguments}\n"), "{verb}");
            assert_eq!(ran.err, "", "{verb} {arguments}");
        }
    }
}

#[test]
fn options_before_the_verb_are_those_of_the_tool() {
    let home = Home::new("wrap");
    let ran = wrapped(&home, &["-q", "--home", "go", "python", "-c", "x"]).exits(0);
    assert_eq!(ran.out, "-c x\n");
}
