//! PostgreSQL over TLS.

use crate::support::postgres::Cluster;
use crate::support::{Agent, Folder, T0};
use flowdb::FlowDb;

#[tokio::test]
async fn a_server_with_another_certificate_is_rejected() {
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        return crate::support::skipped("openssl is not installed");
    }
    let Some(mut cluster) = Cluster::own("tls") else { return };
    let (port, authority) = cluster.with_tls();
    let url = |host: &str, authority: &std::path::Path| {
        format!("postgres://owner@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={}", authority.display())
    };
    let flowdb = FlowDb::open(&url("localhost", &authority)).await.unwrap();
    assert_eq!(flowdb.record(&[Agent::new(1).busy(T0, 2)]).await.unwrap(), 1);
    flowdb.close().await;
    let failure = FlowDb::open(&url("127.0.0.1", &authority)).await.err().unwrap();
    assert!(failure.to_string().contains("not valid for name"), "{failure}");
    let folder = Folder::new("tls-authority");
    let other = folder.0.join("other.pem");
    let arguments = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other", "-keyout"];
    let key = folder.0.join("other.key");
    let created =
        std::process::Command::new("openssl").args(arguments).arg(key).arg("-out").arg(&other).output().unwrap();
    assert!(created.status.success());
    let failure = FlowDb::open(&url("localhost", &other)).await.err().unwrap();
    assert!(failure.to_string().contains("certificate"), "{failure}");
}
