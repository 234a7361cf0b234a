//! A request cut down to what routes look at, and what they answer. Knows no socket.

use std::net::IpAddr;

use serde::Serialize;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
    /// The header `Accept`.
    pub accept: Option<String>,
    /// Who asks.
    pub peer: IpAddr,
}

impl Request {
    /// A parameter of the query; the first of its name counts.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
    }
}

/// Percent-encoding undone; what is not valid stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = || Some((hex(*bytes.get(at + 1)?)?, hex(*bytes.get(at + 2)?)?));
        match bytes[at] {
            b'%' => {
                if let Some((high, low)) = digits() {
                    out.push(high << 4 | low);
                    at += 3;
                    continue;
                }
                out.push(b'%');
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| value.try_into().ok())
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// One header more.
    pub header: Option<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// Text for people.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", header: None, body: body.into() }
    }

    /// A document.
    pub fn json(status: u16, document: &impl Serialize) -> Self {
        match serde_json::to_string(document) {
            Ok(body) => Self { status, content_type: "application/json", header: None, body },
            Err(error) => Self::text(500, format!("the document cannot be written: {error}\n")),
        }
    }

    /// There is nothing at the path.
    pub fn not_found(why: &str) -> Self {
        Self::text(404, format!("{why}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let request = Request {
            path: "/".to_owned(),
            query: "namespace=kube%2Dsystem&name=a+b&name=c&odd=%zz%4".to_owned(),
            accept: None,
            peer: [127, 0, 0, 1].into(),
        };
        let read = |name| request.parameter(name);
        assert_eq!(read("namespace").as_deref(), Some("kube-system"));
        assert_eq!(read("name").as_deref(), Some("a b"));
        assert_eq!(read("odd").as_deref(), Some("%zz%4"));
        assert_eq!(read("none"), None);
    }
}
