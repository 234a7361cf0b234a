//! What the supervisor and the responder say to each other. Each message gets exactly one reply, in order; the
//! responder says nothing else.

use std::net::SocketAddr;

use node::app::Transport;
use serde::{Deserialize, Serialize};

/// What is done on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// Tells who answers, and gives back what it gets.
    #[default]
    Echo,
    /// Answers questions about the cluster's names.
    Dns,
}

/// A socket that is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// Names it in later messages; not in use.
    pub id: u64,
    /// Whom answers tell: a pod as `namespace/name`, a node's name, an address.
    pub name: String,
    /// The node that it is on, if it is known.
    pub node: Option<String>,
    /// Over what.
    #[serde(with = "transport")]
    pub transport: Transport,
    /// What the socket is bound to.
    pub bound: SocketAddr,
    /// What is done on it.
    pub service: Service,
}

/// To the responder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToResponder {
    /// Answer on a socket. Descriptors: the socket, bound; of TCP listening, too.
    Open(Open),
    /// Close a socket, and the connections that came by it.
    Close {
        /// Which.
        id: u64,
    },
    /// The cluster's names from now on. Descriptors: a file with a [`Zone`](crate::dns::Zone) as JSON, because zones
    /// can be longer than messages.
    Zone,
}

/// From the responder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// It is done.
    Ready,
    /// It cannot be done.
    Failed {
        /// Why.
        why: String,
    },
}

/// `node::app` knows no documents.
mod transport {
    use node::app::Transport;
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(super) fn serialize<S: Serializer>(transport: &Transport, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transport, D::Error> {
        match String::deserialize(from)?.as_str() {
            "tcp" => Ok(Transport::Tcp),
            "udp" => Ok(Transport::Udp),
            other => Err(Error::invalid_value(Unexpected::Str(other), &"tcp or udp")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_what_they_say() {
        let open = |transport, service| {
            ToResponder::Open(Open {
                id: 7,
                name: "shop/web".to_owned(),
                node: Some("win-1".to_owned()),
                transport,
                bound: "[::]:80".parse().unwrap(),
                service,
            })
        };
        for message in [
            open(Transport::Tcp, Service::Echo),
            open(Transport::Udp, Service::Dns),
            ToResponder::Close { id: 7 },
            ToResponder::Zone,
        ] {
            let text = serde_json::to_string(&message).unwrap();
            assert_eq!(serde_json::from_str::<ToResponder>(&text).unwrap(), message, "{text}");
        }
        assert!(serde_json::from_str::<ToResponder>(r#"{"open":{"id":1}}"#).is_err());
    }
}
