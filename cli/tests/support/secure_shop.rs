//! The application of `lab/https`, up on free ports.

use super::{Home, Started, free_ports, guide, repository, skipped, wait_for};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

/// Stopped when dropped.
pub struct SecureShop {
    pub home: Home,
    pub base: u16,
}

/// A copy of the tracked files of the application, on free ports. None, with a counted skip, if a language is missing.
pub fn copy(name: &str) -> Option<SecureShop> {
    let have = |program: &&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    };
    if let Some(missing) = ["go", "node", "python3", "openssl"].iter().find(|program| !have(program)) {
        skipped(&format!("{missing} is not installed"));
        return None;
    }
    if !repository().join("sdk/typescript/dist/register.js").exists() {
        skipped("the Node.js SDK is not built (make test builds it)");
        return None;
    }
    let home = Home::new(name);
    let folder = repository().join("lab/https");
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(&folder).output().unwrap();
    for name in String::from_utf8(listed.stdout).unwrap().split('\0').filter(|name| !name.is_empty()) {
        let to = home.file(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(folder.join(name), to).unwrap();
    }
    let shop = SecureShop { home, base: free_ports(4) };
    let target = std::fs::read_to_string(shop.home.file("target.yaml")).unwrap();
    shop.home.write("target.yaml", &shop.on_its_ports(&target));
    Some(shop)
}

impl SecureShop {
    /// One for concurrent tests; the last of them stops it.
    pub fn shared() -> Option<Arc<SecureShop>> {
        static SHOP: Mutex<Weak<SecureShop>> = Mutex::new(Weak::new());
        let mut shop = SHOP.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(up) = shop.upgrade() {
            return Some(up);
        }
        let up = copy("secure")?;
        up.build();
        up.home.run(&["up", "-d", "--json"]).exits(0);
        let up = Arc::new(up);
        *shop = Arc::downgrade(&up);
        Some(up)
    }

    pub fn build(&self) {
        let commands = "./build.sh && (cd prices && faultloom go build -o ../bin/prices .)";
        Started::new(guide::shell(&self.home, &["-e", "-c", commands])).wait().exits(0);
    }

    /// A text of the application with its ports replaced.
    pub fn on_its_ports(&self, text: &str) -> String {
        (0..4).fold(text.to_owned(), |text, i| text.replace(&(9443 + i).to_string(), &(self.base + i).to_string()))
    }

    pub fn front(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.base)
    }

    pub fn prices(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.base + 1)
    }

    /// A server of OpenSSL with this certificate on the fourth port, until it is dropped.
    pub fn serve(&self, certificate: &str, more: &[&str]) -> Server {
        let (cert, key) = (format!("certs/{certificate}.pem"), format!("certs/{certificate}.key"));
        let port = (self.base + 3).to_string();
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-WWW", "-accept", &port, "-cert", &cert, "-key", &key]).args(more);
        command.current_dir(&self.home.path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let address = format!("127.0.0.1:{port}");
        wait_for("openssl s_server", || std::net::TcpStream::connect(&address).ok());
        Server(child)
    }

    pub fn other(&self) -> String {
        format!("https://localhost:{}/README.md", self.base + 3)
    }
}

impl Drop for SecureShop {
    fn drop(&mut self) {
        self.home.run(&["down"]);
    }
}

pub struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
