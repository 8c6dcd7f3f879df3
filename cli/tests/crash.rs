//! A service that crashes because of an injected fault is a finding.

use crate::support::{Home, free_ports};
use std::io::{Read, Write};

/// `front` calls `middle` and tolerates its failure; `middle` calls `back` and exits if that fails.
const SERVER: &str = r#"package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	peer, fragile := os.Getenv("PEER"), os.Getenv("FRAGILE") != ""
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if peer != "" {
			req, _ := http.NewRequestWithContext(r.Context(), "GET", peer, nil)
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
			} else if fragile {
				fmt.Println("panic: back is gone")
				os.Exit(7)
			}
		}
		fmt.Fprintln(w, "hello")
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"#;

fn get(port: u16) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn a_crash_by_the_fault_fails_the_request_although_its_reply_is_correct() {
    let home = Home::new("crash");
    home.write("main.go", SERVER);
    home.write("go.mod", "module server\n\ngo 1.24\n");
    home.run(&["go", "build", "-o", "server", "."]).exits(0);
    let port = free_ports(3);
    let service = |name: &str, at: u16, environment: &str| {
        let listens = port + at;
        format!(
            "  - {{name: {name}, sdk: go, command: [./server, \"{listens}\"], listens: [\"127.0.0.1:{listens}\"], environment: {{{environment}}}}}\n"
        )
    };
    let peer = |at: u16| format!("PEER: \"http://127.0.0.1:{}/\"", port + at);
    let services =
        service("front", 0, &peer(1)) + &service("middle", 1, &(peer(2) + ", FRAGILE: 1")) + &service("back", 2, "");
    home.write("target.yaml", &format!("name: crash\nentry: http://127.0.0.1:{port}/\nservices:\n{services}"));
    home.run(&["up", "-d"]).exits(0);

    home.run(&["record"]).exits(0);
    let ran = home.run(&["record", "--fault", "back unavailable"]).exits(1);
    assert!(ran.out.contains("failed: middle crashed after the fault, every time it was injected"), "{}", ran.out);
    assert!(!ran.err.contains("on its own"), "{}", ran.err);
    home.run(&["record"]).exits(0);
    assert!(get(port).contains("hello"), "later requests are served");

    let sweep = home.run(&["sweep", "--space", "services", "--concurrency", "1"]).exits(1);
    assert!(sweep.err.contains("middle crashed after the fault in 1 case"), "{}", sweep.err);
    let sweep = sweep.says("CRASH").says("Log of middle at that time:").says("│ panic: back is gone");
    assert!(sweep.out.contains("GET / succeeds, and middle crashes, when back fails"), "{}", sweep.out);
    home.run(&["down"]).exits(0);
}
