//! The plainest client of HTTP/1.1 and HTTP/2, with and without TLS, and a few objects.

use std::sync::Arc;

use apiserver::{ApiServer, Options, Running, TestTime};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How to connect.
#[derive(Debug, Clone, Default)]
pub(crate) struct How {
    pub(crate) http2: bool,
    pub(crate) identity: Option<apiserver::Identity>,
    pub(crate) token: Option<String>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection.
pub(crate) struct Connection {
    sender: Sender,
    token: Option<String>,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// A failure's reason; checks that the body is a Status of the same code.
    pub(crate) fn reason(&self) -> String {
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["status"], "Failure", "{status}");
        assert_eq!(status["code"], self.code, "{status}");
        status["reason"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) async fn over<S>(stream: S, http2: bool) -> Result<Connection, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let sender = if http2 {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Sender::Http2(sender)
    } else {
        let (sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        Sender::Http1(sender)
    };
    Ok(Connection { sender, token: None })
}

/// TLS to the server over a stream; the CA is the server's.
pub(crate) async fn tls<S>(
    server: &Running,
    stream: S,
    how: &How,
) -> std::io::Result<tokio_rustls::client::TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut roots = rustls::RootCertStore::empty();
    let ca =
        CertificateDer::from_pem_slice(server.ca_pem().expect("the server speaks TLS").as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
    let mut config = match &how.identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = if how.http2 { vec![b"h2".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    let name = ServerName::try_from("kubernetes.default.svc").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

impl Connection {
    pub(crate) async fn open(server: &Running, how: &How) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let connection = if server.ca_pem().is_some() {
            over(tls(server, stream, how).await.unwrap(), how.http2).await
        } else {
            over(stream, how.http2).await
        };
        Self { token: how.token.clone(), ..connection.unwrap() }
    }

    pub(crate) async fn request(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        if let Some(token) = &self.token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        match &mut self.sender {
            Sender::Http1(sender) => {
                request.headers_mut().insert("host", "test".parse().unwrap());
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                let path = request.uri().to_string();
                *request.uri_mut() = format!("http://test{path}").parse().unwrap();
                sender.send_request(request).await
            }
        }
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let (head, body) = self.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { code: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "application/json", "").await
    }

    /// A watch, which must be let in.
    pub(crate) async fn watch(&mut self, path: &str) -> Events {
        let request = Request::get(path).body(Full::default()).unwrap();
        let response = self.request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        Events { body: response.into_body(), buffer: Vec::new() }
    }
}

/// The stream of a watch.
pub(crate) struct Events {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Events {
    /// The next line as it came, without its end; none at the end of the stream, an error where it broke off.
    pub(crate) async fn line(&mut self) -> Result<Option<Vec<u8>>, hyper::Error> {
        loop {
            if let Some(at) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=at).collect();
                line.pop();
                return Ok(Some(line));
            }
            match self.body.frame().await {
                None => {
                    assert!(
                        self.buffer.is_empty(),
                        "half a line: {:?}",
                        String::from_utf8_lossy(&self.buffer)
                    );
                    return Ok(None);
                }
                Some(frame) => self.buffer.extend_from_slice(&frame?.into_data().unwrap_or_default()),
            }
        }
    }

    /// What is left of a line that broke off.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer
    }

    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.line().await.unwrap()?;
        Some(
            serde_json::from_slice(&line)
                .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&line))),
        )
    }

    /// The next event in short: `ADDED web`.
    pub(crate) async fn short(&mut self) -> String {
        self.next().await.map_or_else(|| "END".to_owned(), |event| short(&event))
    }

    /// So many events in short.
    pub(crate) async fn shorts(&mut self, count: usize) -> Vec<String> {
        let mut shorts = Vec::new();
        for _ in 0..count {
            shorts.push(self.short().await);
        }
        shorts
    }
}

pub(crate) fn short(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap();
    let object = &event["object"];
    let what = match kind {
        "ERROR" => object["code"].to_string(),
        "BOOKMARK" if object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true" => {
            "initial-events-end".to_owned()
        }
        "BOOKMARK" => String::new(),
        _ => object["metadata"]["name"].as_str().unwrap().to_owned(),
    };
    format!("{kind} {what}").trim_end().to_owned()
}

pub(crate) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A server without TLS whose time stands still.
pub(crate) fn plain() -> (Running, TestTime) {
    let time = TestTime::new();
    (ApiServer::start(Options::plain().time(time.clone())).unwrap(), time)
}

/// A Service as a manifest.
pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    })
}

pub(crate) fn apply(server: &Running, object: &Value) {
    server.store().apply_manifests(&object.to_string()).unwrap();
}
