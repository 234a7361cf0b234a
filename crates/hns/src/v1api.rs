//! The v1 API (`HNSCall`): paths, bodies and the response envelope.
//!
//! The paths are a second way to the same operations; what they read and print is converted by [`hcn::v1`]. Facts:
//! hcsshim's path table and its v1 tests, PowerShell's module.

use hcn::api::V1Method;
use hcn::error::ErrorRecord;
use hcn::json::RawJson;
use hcn::{Error, ErrorClass, Guid, HResult, Kind, Result};

use crate::faults::Effect;
use crate::journal::Op;
use crate::service::{Hns, Request};
use crate::switches::V1Failure;
use crate::tx::refuse;

mod act;
mod path;

use path::{Path, Policy};

/// The answer to a v1 call, ready to be wrapped.
pub(crate) type Output = Option<RawJson>;

impl Hns {
    pub(crate) fn v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        let parsed = Path::parse(path);
        let document =
            parsed.as_ref().map_err(Clone::clone).and_then(|path| act::Body::read(method, path, body));
        let (kind, id) = parsed.as_ref().map_or((None, None), |path| self.names(path));
        let subject = match (&document, kind, id) {
            (_, Some(kind), Some(id)) => self.subject_of(kind, id),
            (Ok(document), ..) => document.subject(),
            _ => String::new(),
        };
        let subject = if subject.is_empty() { path.to_owned() } else { subject };
        let request = Request { op: Op::V1(method), kind, id, subject };
        let answer = self.run(request, |effect| {
            let (path, document) = (parsed?, document?);
            if effect == Effect::NilGet {
                return Ok((None, None));
            }
            if effect == Effect::Ghost {
                if let (Some(kind), Some(id)) = (kind, id) {
                    self.require(kind, id)?;
                }
                return Ok((None, None));
            }
            self.act_v1(method, &path, document, &effect)
        });
        self.wrap(answer)
    }

    /// Which object a path is about. Load balancers and SDN routes share their paths.
    fn names(&self, path: &Path) -> (Option<Kind>, Option<Guid>) {
        match path {
            Path::Collection(kind) => (Some(*kind), None),
            Path::Object(kind, id) => (Some(*kind), Some(*id)),
            Path::Detailed(id) | Path::Attach(id) | Path::Detach(id) | Path::Stats(Some(id)) => {
                (Some(Kind::Endpoint), Some(*id))
            }
            Path::AddResource(id) | Path::RemoveResource(id) => (Some(Kind::Namespace), Some(*id)),
            Path::PolicyLists(Policy::All) => (Some(Kind::LoadBalancer), None),
            Path::PolicyLists(Policy::One(id)) => {
                let is_route = self.inner.state.read().routes.contains(*id);
                (Some(if is_route { Kind::SdnRoute } else { Kind::LoadBalancer }), Some(*id))
            }
            Path::Stats(None) => (Some(Kind::Endpoint), None),
            Path::Version | Path::Accelnet | Path::Named(_) => (None, None),
        }
    }

    /// A service that is down answers nothing; a refusal is told as the switch says.
    fn wrap(&self, answer: Result<Output>) -> Result<String> {
        match answer {
            Ok(None) => Ok(r#"{"Success":true}"#.to_owned()),
            Ok(Some(output)) => Ok(format!(r#"{{"Success":true,"Output":{}}}"#, output.get())),
            Err(error) => {
                let style = self.inner.env.switches.v1_failure;
                if style == V1Failure::HResult || error.class() == ErrorClass::Unavailable {
                    Err(error.in_call("HNSCall"))
                } else {
                    tracing::debug!(%error, "v1 call refused");
                    Ok(ErrorRecord::of(error.code).to_json())
                }
            }
        }
    }
}

/// The error of a method that a path does not have.
fn no_such_call(method: V1Method, path: &Path) -> Error {
    let detail = format!("there is no v1 call {} {path:?}", method.as_str());
    refuse(HResult::REQUEST_UNSUPPORTED, detail)
}
