//! An HNS with a defect: what shows that the suite can fail.

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::{Error, Guid, HResult, Hcn, Kind, Query, Result, Version};
use serde_json::Value;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A create disregards the `ID` in the document.
    DropsDocumentIds,
    /// A port that is taken is reported as a wrong parameter.
    WrongPortCode,
    /// A namespace that is not there is reported as a missing network.
    WrongNamespaceCode,
    /// Policies do not read back.
    ForgetsPolicies,
    /// Policies read back in other bytes.
    RespellsPolicies,
    /// Filters are disregarded.
    IgnoresFilters,
    /// A list of nothing is an error.
    EmptyListsFail,
    /// Ids inside a namespace's resources are in lower case.
    LowerCaseResources,
    /// A delete succeeds without effect.
    GhostDeletes,
    /// A change succeeds without effect.
    GhostModifies,
    /// A change is not implemented.
    NoModify,
    /// v2 queries are answered in v1 form.
    AnswersInV1,
    /// Documents come without id.
    AnonymousDocuments,
    /// Flags do not read back.
    ForgetsFlags,
    /// Names do not read back.
    ForgetsNames,
    /// Addresses and MAC pools do not read back.
    ForgetsAddresses,
    /// Types do not read back.
    ForgetsTypes,
    /// Fresh namespaces hold a container.
    StrayContainers,
    /// The version is older than the service.
    UnderstatesVersion,
    /// The version is newer than the service.
    OverstatesVersion,
    /// The version is another one each time.
    UnsteadyVersion,
    /// v1 calls are refused.
    NoV1,
    /// v1 calls do nothing and answer nothing.
    EmptyV1,
    /// A second network of a name is made.
    NamesNotUnique,
    /// Lists fail while there is something to list.
    ListsFail,
}

impl Defect {
    pub(crate) const ALL: [Self; 25] = [
        Self::DropsDocumentIds,
        Self::WrongPortCode,
        Self::WrongNamespaceCode,
        Self::ForgetsPolicies,
        Self::RespellsPolicies,
        Self::IgnoresFilters,
        Self::EmptyListsFail,
        Self::LowerCaseResources,
        Self::GhostDeletes,
        Self::GhostModifies,
        Self::NoModify,
        Self::AnswersInV1,
        Self::AnonymousDocuments,
        Self::ForgetsFlags,
        Self::ForgetsNames,
        Self::ForgetsAddresses,
        Self::ForgetsTypes,
        Self::StrayContainers,
        Self::UnderstatesVersion,
        Self::OverstatesVersion,
        Self::UnsteadyVersion,
        Self::NoV1,
        Self::EmptyV1,
        Self::NamesNotUnique,
        Self::ListsFail,
    ];
}

/// An HNS and its defect.
pub(crate) struct Broken<H> {
    inner: H,
    defect: Defect,
    calls: std::sync::atomic::AtomicU32,
}

impl<H: Hcn> Broken<H> {
    pub(crate) fn new(inner: H, defect: Defect) -> Self {
        Self { inner, defect, calls: 0.into() }
    }

    /// How many calls of the kind that counts there were before.
    fn count(&self) -> u32 {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    }

    fn spoil(&self, kind: Kind, text: String) -> String {
        let Ok(Value::Object(mut document)) = serde_json::from_str(&text) else { return text };
        let forget: &[&str] = match self.defect {
            Defect::ForgetsPolicies => &["Policies"],
            Defect::AnonymousDocuments => &["ID"],
            Defect::ForgetsFlags => &["Flags"],
            Defect::ForgetsNames => &["Name"],
            Defect::ForgetsAddresses => &["IpConfigurations", "MacPool", "FrontendVIPs", "Ipams"],
            Defect::ForgetsTypes if kind == Kind::Namespace => &["Type"],
            _ => &[],
        };
        for name in forget {
            document.shift_remove(*name);
        }
        match self.defect {
            Defect::ForgetsFlags => {
                if let Some(Value::Array(mappings)) = document.get_mut("PortMappings") {
                    for mapping in mappings.iter_mut().filter_map(Value::as_object_mut) {
                        mapping.shift_remove("Flags");
                        mapping.shift_remove("DistributionType");
                    }
                }
            }
            Defect::RespellsPolicies => {
                if let Some(Value::Array(policies)) = document.get_mut("Policies") {
                    for settings in policies.iter_mut().filter_map(|policy| policy.get_mut("Settings")) {
                        if let Value::Object(settings) = settings {
                            settings.sort_keys();
                        }
                    }
                }
            }
            Defect::LowerCaseResources if kind == Kind::Namespace => {
                if let Some(resources) = document.get_mut("Resources") {
                    *resources = lower_ids(resources);
                }
            }
            Defect::StrayContainers if kind == Kind::Namespace => {
                let stray = serde_json::json!({ "Type": "Container", "Data": { "Id": "stray" } });
                match document.get_mut("Resources") {
                    Some(Value::Array(resources)) => resources.insert(0, stray),
                    _ => drop(document.insert("Resources".to_owned(), serde_json::json!([stray]))),
                }
            }
            _ => {}
        }
        Value::Object(document).to_string()
    }
}

fn lower_ids(resources: &Value) -> Value {
    let Value::Array(resources) = resources else { return resources.clone() };
    let lower = |resource: &Value| {
        let mut resource = resource.clone();
        if let Some(Value::Object(data)) = resource.get_mut("Data") {
            for value in data.values_mut() {
                *value = Value::String(value.as_str().unwrap_or_default().to_lowercase());
            }
        }
        resource
    };
    resources.iter().map(lower).collect()
}

impl<H: Hcn> Hcn for Broken<H> {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        let ids = match self.defect {
            Defect::IgnoresFilters => self.inner.enumerate(kind, &Query::all())?,
            _ => self.inner.enumerate(kind, query)?,
        };
        match self.defect {
            Defect::EmptyListsFail if ids.is_empty() && query.filter.is_some() => {
                Err(Error::new(kind.not_found()))
            }
            // The first calls are those of the runner, which looks at what is there.
            Defect::ListsFail if self.count() >= 5 => Err(Error::new(HResult::RPC_CALL_FAILED)),
            _ => Ok(ids),
        }
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        if self.defect == Defect::AnswersInV1 {
            return self.inner.query(kind, id, &Query { schema_version: None, ..query.clone() });
        }
        match self.inner.query(kind, id, query) {
            Ok(text) => Ok(self.spoil(kind, text)),
            Err(error)
                if self.defect == Defect::WrongNamespaceCode
                    && kind == Kind::Namespace
                    && error.code == HResult::ELEMENT_NOT_FOUND =>
            {
                Err(Error::new(HResult::PORT_NOT_FOUND))
            }
            Err(error) => Err(error),
        }
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        let mut settings = settings.to_owned();
        if self.defect == Defect::DropsDocumentIds
            && let Ok(Value::Object(mut document)) = serde_json::from_str(&settings)
        {
            document.shift_remove("ID");
            settings = Value::Object(document).to_string();
        }
        if self.defect == Defect::NamesNotUnique
            && kind == Kind::Network
            && let Ok(Value::Object(mut document)) = serde_json::from_str::<Value>(&settings)
        {
            let name = format!("{}-{}", document["Name"].as_str().unwrap_or_default(), self.count());
            document.insert("Name".to_owned(), name.into());
            settings = Value::Object(document).to_string();
        }
        match self.inner.create(kind, network, id, &settings) {
            Err(error)
                if self.defect == Defect::WrongPortCode && error.code == HResult::PORT_ALREADY_EXISTS =>
            {
                Err(Error::new(HResult::INVALID_PARAMETER))
            }
            other => other,
        }
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        match self.defect {
            Defect::GhostModifies => Ok(()),
            Defect::NoModify => Err(Error::new(HResult::E_NOTIMPL)),
            _ => self.inner.modify(kind, id, settings),
        }
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        if self.defect == Defect::GhostDeletes { Ok(()) } else { self.inner.delete(kind, id) }
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        match self.defect {
            Defect::NoV1 => Err(Error::new(HResult::E_NOTIMPL)),
            Defect::EmptyV1 => Ok(r#"{"Success":true,"Output":"nothing"}"#.to_owned()),
            _ => self.inner.call_v1(method, path, body),
        }
    }

    fn version(&self) -> Result<Version> {
        match self.defect {
            Defect::UnderstatesVersion => Ok(Version::new(9, 1)),
            Defect::OverstatesVersion => Ok(Version::new(16, 0)),
            Defect::UnsteadyVersion => Ok(Version::new(16, self.count())),
            _ => self.inner.version(),
        }
    }

    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId> {
        self.inner.subscribe(sink)
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        self.inner.unsubscribe(subscription);
    }
}
