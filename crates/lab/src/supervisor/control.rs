//! The lab's socket: calls become events of the supervisor's one thread, and wait for its answer.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};

use hcn::Hcn;
use hnsd::{Call, CallError, Service};
use serde::Deserialize;
use serde_json::{Value, json};

use super::messages::methods;
use super::{Event, Order};

/// Answers on the lab's socket.
pub(super) struct Control {
    pub(super) lab: String,
    pub(super) events: Sender<Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestartParams {
    process: String,
    #[serde(default)]
    kill: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeadParams {
    address: std::net::IpAddr,
    node: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddSandboxParams {
    name: String,
    node: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveSandboxParams {
    name: String,
}

/// How an order's outcome comes back.
pub(super) type Reply = SyncSender<Result<Value, CallError>>;

impl Service for Control {
    fn hcn(&self, _: &str) -> Option<Arc<dyn Hcn>> {
        None
    }

    fn about(&self) -> Value {
        json!({ "lab": self.lab, "transom": env!("CARGO_PKG_VERSION") })
    }

    fn call(&self, call: &Call<'_>) -> Result<Value, CallError> {
        let order = match call.method {
            methods::STATUS => Order::Status,
            methods::APPLY => Order::Apply,
            methods::RESTART => {
                let RestartParams { process, kill } = call.arguments()?;
                Order::Restart { process, kill }
            }
            methods::LEAD => {
                let LeadParams { address, node } = call.arguments()?;
                Order::Lead { address, node }
            }
            methods::ADD_SANDBOX => {
                let AddSandboxParams { name, node } = call.arguments()?;
                Order::AddSandbox { name, node }
            }
            methods::REMOVE_SANDBOX => {
                let RemoveSandboxParams { name } = call.arguments()?;
                Order::RemoveSandbox { name }
            }
            methods::STOP => Order::Stop,
            method => return Err(CallError::unknown_method(method)),
        };
        let (reply, answer) = sync_channel(1);
        let ending = || CallError::failed("the lab is ending");
        self.events.send(Event::Order(order, reply)).map_err(|_| ending())?;
        answer.recv().unwrap_or_else(|_| Err(ending()))
    }
}
