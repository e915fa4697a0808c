//! Tests of TLS and passwords between kvbench and the nodes of a cluster.

use crate::{
    cluster::{CLUSTER, prefix, refusal, shared},
    servers::{bulk, text},
    support::{PATIENCE, Server, request},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Directory with the certificate of an authority (`ca.pem`), one that it signed and its key (`cert.pem`, `key.pem`),
/// for a node or a client, and the certificate of another authority (`other.pem`).
struct Certificates(TempDir);

impl Certificates {
    fn new() -> Self {
        let authority = || {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let (ca, other, key) = (authority(), authority(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(["127.0.0.1".into()]).unwrap();
        // OpenSSL takes a certificate with the name of its authority for one that is signed by itself.
        params.distinguished_name.push(DnType::CommonName, "node");
        let signed = params.signed_by(&key, &ca).unwrap();
        let files = Self(tempfile::tempdir().unwrap());
        let pems = [ca.pem(), signed.pem(), key.serialize_pem(), other.pem()];
        for (name, pem) in ["ca.pem", "cert.pem", "key.pem", "other.pem"].into_iter().zip(pems) {
            files.write(name, &pem);
        }
        files
    }

    /// Writes a file that only its owner can read, and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).unwrap();
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }

    /// Returns the flags that connect with these certificates.
    fn flags(&self, names: &[(&str, &str)]) -> Vec<String> {
        names.iter().flat_map(|(flag, name)| [format!("--cluster-{flag}"), self.path(name)]).collect()
    }
}

const ALL: [(&str, &str); 3] = [("tls-ca", "ca.pem"), ("tls-cert", "cert.pem"), ("tls-key", "key.pem")];

/// Starts a server, and writes and reads keys through it.
fn serve_and_use(arguments: &[String]) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut client = server.connect();
    let keys: Vec<_> = (0..100).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        client.send(request(&["SET", key, "1"]));
        client.send(request(&["INCR", key]));
        client.send(request(&["GET", key]));
    }
    for key in &keys {
        let replies = [(); 3].map(|()| client.reply());
        assert_eq!(replies, [text("OK"), OwnedFrame::Integer(2), bulk("2")], "{key}");
    }
    assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(100));
}

#[cfg(feature = "redis")]
mod redis {
    use super::*;

    /// Nodes that serve TLS only, and require a certificate and a password of each client.
    struct Nodes {
        processes: Vec<Child>,
        ports: Vec<u16>,
    }

    impl Drop for Nodes {
        fn drop(&mut self) {
            for process in &mut self.processes {
                drop(process.kill());
                drop(process.wait());
            }
        }
    }

    impl Nodes {
        fn start(certificates: &Certificates) -> Self {
            // The port of the cluster's bus is 10,000 above.
            let free = |port: &u16| {
                [*port, port + 10_000].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            };
            let ports: Vec<u16> = (17_101..20_000).filter(free).take(3).collect();
            let processes = ports.iter().map(|port| Self::start_one(certificates, *port)).collect();
            let nodes = Self { processes, ports };
            for port in &nodes.ports {
                nodes.wait_for(certificates, *port, "PING", "PONG");
            }
            let addresses: Vec<_> = nodes.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
            let mut create = cli(certificates);
            create.args(["--cluster", "create"]).args(addresses).arg("--cluster-yes");
            let output = create.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            for port in &nodes.ports {
                nodes.wait_for(certificates, *port, "CLUSTER INFO", "cluster_state:ok");
            }
            nodes
        }

        fn start_one(certificates: &Certificates, port: u16) -> Child {
            let directory = certificates.0.path().join(port.to_string());
            fs::create_dir(&directory).unwrap();
            let settings = format!(
                "port 0\ntls-port {port}\nbind 127.0.0.1\ntls-cluster yes\ntls-replication yes\ntls-auth-clients yes\n\
                tls-ca-cert-file {}\ntls-cert-file {}\ntls-key-file {}\ncluster-enabled yes\nappendonly yes\n\
                appendfsync always\nsave \"\"\nrequirepass secret\nmasterauth secret\ndir {}\n\
                user bench on >bench-secret ~* &* +@all\n",
                certificates.path("ca.pem"),
                certificates.path("cert.pem"),
                certificates.path("key.pem"),
                directory.display()
            );
            let file = directory.join("redis.conf");
            fs::write(&file, settings).unwrap();
            let mut command = Command::new("redis-server");
            command.arg(file).stdin(Stdio::null()).stdout(Stdio::null());
            command.spawn().expect("redis-server is to be installed")
        }

        fn wait_for(&self, certificates: &Certificates, port: u16, request: &str, reply: &str) {
            let begin = Instant::now();
            let says = || {
                let mut ask = cli(certificates);
                ask.args(["-p", &port.to_string()]).args(request.split(' '));
                String::from_utf8(ask.output().unwrap().stdout).unwrap()
            };
            while !says().contains(reply) {
                assert!(begin.elapsed() < PATIENCE, "port {port}: {request} is not answered by {reply}");
                thread::sleep(Duration::from_millis(50));
            }
        }

        fn arguments(&self) -> Vec<String> {
            let nodes: Vec<_> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
            ["--store", "redis", "--nodes", &nodes.join(","), "--prefix", &prefix("tls")]
                .map(String::from)
                .into()
        }
    }

    fn cli(certificates: &Certificates) -> Command {
        let mut command = Command::new("redis-cli");
        command.args([
            "--no-auth-warning",
            "-a",
            "secret",
            "--tls",
            "--cacert",
            &certificates.path("ca.pem"),
        ]);
        command.args(["--cert", &certificates.path("cert.pem"), "--key", &certificates.path("key.pem")]);
        command
    }

    #[test]
    fn redis_cluster_with_tls_and_passwords_serves_only_those_who_have_both() {
        let _cluster = shared();
        if !CLUSTER.has_slots() {
            return;
        }
        let certificates = Certificates::new();
        certificates.write("password", "secret\n");
        certificates.write("bench-password", "bench-secret\n");
        let nodes = Nodes::start(&certificates);
        let with = |names: &[(&str, &str)], user: &[&str]| {
            let user = user.iter().map(ToString::to_string);
            [nodes.arguments(), certificates.flags(names), user.collect()].concat()
        };
        let all = |password| [&ALL[..], &[("password-file", password)]].concat();
        serve_and_use(&with(&all("password"), &[]));
        serve_and_use(&with(&all("bench-password"), &["--cluster-user", "bench"]));
        for (arguments, words) in [
            (with(&ALL, &[]), "give --cluster-password-file"),
            (with(&all("bench-password"), &[]), "check --cluster-password-file"),
            (with(&all("password"), &["--cluster-user", "bench"]), "check --cluster-password-file"),
            (
                with(&[("tls-ca", "other.pem"), ALL[1], ALL[2], ("password-file", "password")], &[]),
                "check --cluster-tls-ca",
            ),
            // The nodes require a certificate of the client.
            (with(&[ALL[0], ("password-file", "password")], &[]), "127.0.0.1:"),
            // The nodes do not accept connections without TLS.
            (with(&[("password-file", "password")], &[]), "127.0.0.1:"),
        ] {
            let refusal = refusal(&arguments).expect("it does not start");
            assert!(refusal.contains(words), "{arguments:?}: {refusal}");
        }
    }
}

#[cfg(feature = "tikv")]
mod tikv {
    use super::*;
    use crate::{cluster::alone, proxy::Proxy};
    use std::{path::Path, sync::Arc};
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            RootCertStore, ServerConfig,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
            server::WebPkiClientVerifier,
        },
    };

    /// Accepts clients with a certificate of the authority, as TiKV does.
    fn acceptor(certificates: &Certificates) -> TlsAcceptor {
        let certificate =
            |name: &str| CertificateDer::from_pem_file(Path::new(&certificates.path(name))).unwrap();
        let key = PrivateKeyDer::from_pem_file(Path::new(&certificates.path("key.pem"))).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca.pem")).unwrap();
        let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let config = ServerConfig::builder().with_client_cert_verifier(clients);
        let mut config = config.with_single_cert(vec![certificate("cert.pem")], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    /// The nodes and the placement driver of `tools/cluster` serve no TLS, so proxies do it for them.
    #[test]
    fn proxied_tikv_cluster_with_tls_serves_only_those_who_have_certificates() {
        let _cluster = alone();
        if CLUSTER.has_slots() {
            return;
        }
        let certificates = Certificates::new();
        let proxy = Proxy { tls: Some(acceptor(&certificates)), ..Proxy::default() };
        let with =
            |names: &[(&str, &str)]| [CLUSTER.arguments(&prefix("tls")), certificates.flags(names)].concat();
        proxy.run(|| {
            serve_and_use(&with(&ALL));
            for names in [&[("tls-ca", "other.pem"), ALL[1], ALL[2]][..], &[]] {
                let refusal = refusal(&with(names)).expect("it does not start");
                assert!(refusal.contains("no cluster answers at --pd"), "{names:?}: {refusal}");
            }
        });
    }
}
