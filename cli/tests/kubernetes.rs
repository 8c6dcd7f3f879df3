//! An application that is described only by Kubernetes manifests: drafted, started, checked and recorded.

use crate::support::bookstore::{SERVICES, calls};
use crate::support::{Home, Started, free_ports, guide, repository, skipped};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The tracked files of the bookstore without its target file, with `port` in place of 8080 and `port + 10` in place of
/// 50051, so that tests that run concurrently do not compete for ports.
fn sources(home: &Home, port: u16) {
    let from = repository().join("lab/bookstore");
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(&from).output().unwrap();
    for name in String::from_utf8(listed.stdout).unwrap().split('\0').filter(|name| !name.is_empty()) {
        let to = home.file(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from.join(name), &to).unwrap();
        if name.starts_with("kubernetes/") {
            let text = std::fs::read_to_string(&to).unwrap();
            let text = text.replace("8080", &port.to_string()).replace("50051", &(port + 10).to_string());
            std::fs::write(to, text).unwrap();
        }
    }
    std::fs::remove_file(home.file("target.yaml")).unwrap();
}

/// What the printed build commands result in. None if the bookstore is not built.
fn build(home: &Home) -> Option<()> {
    let root = repository();
    let links = [
        ("out/bookstore/venv", "python/.venv"),
        ("lab/bookstore/node/node_modules", "node/node_modules"),
        ("lab/bookstore/java/target", "java/target"),
        ("out/bookstore/orders", "go/bin/orders"),
        ("out/bookstore/stock", "go/bin/stock"),
        ("out/bookstore/storefront", "go/bin/storefront"),
    ];
    std::fs::create_dir(home.file("go/bin")).unwrap();
    for (from, to) in links {
        if !root.join(from).exists() {
            skipped(&format!("{from} is not built (make test builds it)"));
            return None;
        }
        std::os::unix::fs::symlink(root.join(from), home.file(to)).unwrap();
    }
    Some(())
}

fn next(drafted: &Value) -> Vec<&str> {
    drafted["next"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect()
}

#[test]
fn the_bookstore_is_drafted_from_its_manifests_and_recorded() {
    let home = Home::new("kubernetes");
    let port = free_ports(20);
    sources(&home, port);
    let drafted = home.run(&["init", "--json"]).exits(0).json();
    assert_eq!(
        (&drafted["from"], &drafted["notes"], &drafted["todos"]),
        (&"kubernetes".into(), &Value::Array(vec![]), &Value::Array(vec![]))
    );
    assert_eq!(drafted["services"].as_array().unwrap().len(), SERVICES.len());
    assert_eq!(
        next(&drafted),
        [
            "(cd python && python3 -m venv .venv && .venv/bin/pip install -r requirements.txt)",
            "(cd java && mvn -q package -DskipTests)",
            "(cd go && faultloom go build -o bin/ ./cmd/orders ./cmd/stock ./cmd/storefront)",
            "(cd node && npm install)",
            "faultloom doctor --target",
        ]
    );
    if build(&home).is_none() {
        return;
    }
    home.run(&["up", "--detach", "--json"]).exits(0);
    let report = home.run(&["doctor", "--target", "--json"]).exits(0).json();
    let services = report["services"].as_array().unwrap();
    assert_eq!(services.len(), SERVICES.len());
    assert!(services.iter().all(|service| service["ok"] == true), "{report}");
    // without a URL: the entry that was found
    let home_page = home.run(&["record", "--json"]).exits(0).json();
    assert_eq!((home_page["summary"]["calls"].as_u64(), home_page["summary"]["gaps"].as_u64()), (Some(5), Some(0)));
    let url = format!("http://127.0.0.1:{port}/orders");
    let form = r#"{"customer": "ada", "book": "1"}"#;
    let order = home.run(&["record", "--json", "-X", "POST", "-H", "Content-Type: application/json", "-d", form, &url]);
    let order = order.exits(0).json();
    let callees: Vec<&str> = calls(&order["trace"]).iter().map(|call| call["callee"].as_str().unwrap()).collect();
    for service in ["orders", "catalog", "stock", "payment", "delivery", "mail"] {
        assert!(callees.contains(&service), "{callees:?}");
    }
    home.run(&["down"]).exits(0);
}

#[test]
fn manifests_are_found_wherever_they_are() {
    let home = Home::new("kubernetes-paths");
    sources(&home, 28500);
    let services = |arguments: &[&str]| {
        let drafted = home.run(&[&["init", "--json", "--force"], arguments].concat()).exits(0).json();
        drafted["services"].as_array().unwrap().len()
    };
    assert_eq!(services(&["kubernetes"]), 8);
    assert_eq!(services(&["kubernetes/orders.yaml"]), 1);
    // one file with all of them
    let all: Vec<String> = SERVICES
        .iter()
        .map(|(name, _)| std::fs::read_to_string(home.file(&format!("kubernetes/{name}.yaml"))).unwrap())
        .collect();
    home.write("all.yaml", &all.join("---\n"));
    assert_eq!(services(&["all.yaml"]), 8);
    let piped = home.command(&["init", "--json", "--force", "-"]);
    let mut piped = piped;
    let ran = piped.stdin(std::fs::File::open(home.file("all.yaml")).unwrap()).output().unwrap();
    let drafted: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(drafted["services"].as_array().unwrap().len(), 8);
    assert_eq!(drafted["services"][0]["attached"], Value::Null, "sources are found from the working directory");
    // from another folder, and with the target file elsewhere
    std::fs::create_dir(home.file("elsewhere")).unwrap();
    assert_eq!(services(&["kubernetes", "-o", "elsewhere/target.yaml"]), 8);
    let text = std::fs::read_to_string(home.file("elsewhere/target.yaml")).unwrap();
    assert!(text.contains("directory: ../python"), "{text}");
}

#[test]
fn a_kustomization_is_rendered_and_applied() {
    let home = Home::new("kubernetes-kustomize");
    sources(&home, 28530);
    let names: Vec<String> = SERVICES.iter().map(|(name, _)| format!("{name}.yaml")).collect();
    home.write("kubernetes/kustomization.yaml", &format!("resources: [{}]\n", names.join(", ")));
    std::fs::create_dir_all(home.file("overlays/dev")).unwrap();
    home.write("overlays/dev/kustomization.yaml", "resources: [../../kubernetes]\nnamespace: dev\n");
    let drafted = |path: &str| home.run(&["init", "--json", "--force", path]).exits(0).json();
    for path in ["kubernetes", "overlays/dev", "overlays/dev/kustomization.yaml", "overlays"] {
        assert_eq!(drafted(path)["services"].as_array().unwrap().len(), 8, "{path}");
    }
    // without a tool, from a PATH that has none
    let mut alone = home.command(&["init", "--json", "--force", "overlays/dev"]);
    let ran = alone.env("PATH", "/nonexistent").output().unwrap();
    let drafted: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(drafted["services"].as_array().unwrap().len(), 8);
}

#[test]
fn a_chart_is_rendered_by_helm() {
    if Command::new("helm").arg("version").output().is_err() {
        return skipped("helm is not installed: no chart is rendered");
    }
    let home = Home::new("kubernetes-helm");
    std::fs::create_dir_all(home.file("chart/templates")).unwrap();
    std::fs::create_dir(home.file("rates")).unwrap();
    home.write("rates/package.json", r#"{"scripts": {"start": "node rates.js"}}"#);
    home.write("chart/Chart.yaml", "apiVersion: v2\nname: rates\nversion: 1.0.0\n");
    home.write("chart/values.yaml", "port: 28590\n");
    home.write(
        "chart/templates/rates.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Chart.Name }}}\nspec: {template: {spec: {containers: \
         [{name: rates, image: rates, ports: [{containerPort: {{ .Values.port }}}]}]}}}\n",
    );
    for arguments in [&["init", "--json"][..], &["init", "--json", "--force", "chart"]] {
        let drafted = home.run(arguments).exits(0).json();
        assert_eq!(
            (&drafted["services"][0]["name"], &drafted["services"][0]["attached"]),
            (&"rates".into(), &Value::Null)
        );
        assert!(std::fs::read_to_string(home.file("target.yaml")).unwrap().contains("127.0.0.1:28590"));
    }
    home.write("chart/templates/rates.yaml", "{{ fail \"no port\" }}\n");
    home.run(&["init", "--force", "chart"]).exits(2).says("helm cannot render chart").says("no port");
}

#[test]
fn bad_manifests_are_refused_with_file_document_and_next_step() {
    let home = Home::new("kubernetes-bad");
    let mut text = String::new();
    let mut refuse = |arguments: &[&str], code: i32| {
        let mut command = home.command(arguments);
        // no helm, no kubectl: the messages do not depend on this machine
        let ran = command.env("PATH", "/nonexistent").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).replace(&home.path.display().to_string(), "~");
        assert_eq!(ran.status.code(), Some(code), "{said}");
        assert!(!home.file("target.yaml").exists() && ran.stdout.is_empty());
        text += &format!("$ faultloom {}\n{said}\n", arguments.join(" "));
    };
    let deployment = |name: &str, more: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{containers: \
             [{{name: c{more}}}]}}}}}}\n"
        )
    };
    std::fs::create_dir(home.file("k8s")).unwrap();
    home.write("k8s/a.yaml", &(deployment("a", "") + "---\napiVersion: v1\nkind: Service\n  metadata: [\n"));
    refuse(&["init"], 2);
    home.write("k8s/a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Values.name }}}\n");
    refuse(&["init", "k8s/a.yaml"], 2);
    home.write("k8s/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: x/v1\nkind: Widget\nmetadata: {name: w}\n");
    refuse(&["init", "k8s"], 2);
    home.write("k8s/a.yaml", &(deployment("a", "") + "---\n" + &deployment("a", ", image: x")));
    refuse(&["init"], 2);
    std::fs::remove_file(home.file("k8s/a.yaml")).unwrap();
    std::fs::create_dir_all(home.file("k8s/base")).unwrap();
    std::fs::create_dir_all(home.file("k8s/prod")).unwrap();
    home.write("k8s/base/kustomization.yaml", "resources: []\n");
    home.write("k8s/prod/kustomization.yaml", "resources: [../base]\nhelmCharts: []\n");
    refuse(&["init", "k8s"], 2);
    refuse(&["init", "k8s/prod"], 3);
    home.write("k8s/prod/kustomization.yaml", "resources: [lost.yaml]\n");
    refuse(&["init", "k8s/prod"], 2);
    std::fs::create_dir(home.file("chart")).unwrap();
    home.write("chart/Chart.yaml", "name: x\n");
    refuse(&["init", "chart"], 3);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/init-kubernetes-bad.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "BLESS=1 rewrites {}", path.display());
}

#[test]
fn manifests_without_services_images_or_sources_are_drafted_with_notes() {
    let home = Home::new("kubernetes-notes");
    home.write(
        "app.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec: {template: {spec: {containers: [{name: c, ports: [{containerPort: 28560}]}]}}}\n---\n\
         apiVersion: x/v1\nkind: Widget\nmetadata: {name: w}\n---\nkind: Lost\n",
    );
    let ran = home.run(&["init", "app.yaml"]).exits(0);
    for part in [
        "app.yaml, document 1: no command for service 'shop': its container has no image",
        "app.yaml, document 3: skipped, since it has no apiVersion and kind",
        "app.yaml has no Service",
        "skipped, since these kinds have no counterpart here: Widget (w)",
        "kubectl port-forward deployment/shop 28560:28560",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    assert!(!std::fs::read_to_string(home.file("target.yaml")).unwrap().contains("TODO"));
    home.run(&["up"])
        .exits(3)
        .says("service 'shop' is not healthy and is not started by this tool")
        .says("give it a `command`");
}

#[test]
fn every_command_of_the_guide_works() {
    let have = |program: &str| Command::new(program).arg("--help").output().is_ok();
    let built = ["sdk/java/agent/target/faultloom-agent.jar", "sdk/typescript/dist/register.js"];
    if let Some(missing) = ["go", "mvn", "npm", "python3"].iter().find(|program| !have(program)) {
        return skipped(&format!("{missing} is not installed"));
    }
    if let Some(missing) = built.iter().find(|path| !repository().join(path).exists()) {
        return skipped(&format!("{missing} is not built (make test builds it)"));
    }
    let home = Home::new("kubernetes-guide");
    sources(&home, free_ports(20));
    let mut said = String::new();
    for block in guide::commands("docs/guides/kubernetes.md") {
        let ran = Started::new(guide::shell(&home, &["-e", "-c", &block])).wait();
        said += &format!("$ {block}\n{}{}\n", ran.out, ran.err);
        assert_eq!(ran.status.code(), Some(0), "{said}");
    }
    for promised in ["8 services (3 Go, 1 Java, 2 Python, 2 Node.js)", "GET /levels/{id}", "no gaps"] {
        assert!(said.contains(promised), "{promised}\n{said}");
    }
    let patches = std::fs::read_to_string(home.file("sdk/python.yaml")).unwrap();
    assert!(patches.contains("name: catalog") && patches.contains("name: mail"), "{patches}");
}
