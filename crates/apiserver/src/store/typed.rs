//! What tests do with the store: typed objects and manifests in, typed objects out.
//!
//! This module must not know requests.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::state::key;
use super::{Store, Transaction, metadata_of};
use crate::kind::{self, Kind};
use crate::yaml;

/// Why the store refuses an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The server does not have such objects.
    #[error("{api_version} {kind} is not served; the server has the kinds of crates/apiserver/src/kind.rs")]
    NotServed {
        /// As in the manifest.
        api_version: String,
        /// As in the manifest.
        kind: String,
    },
    /// The object is not one of its kind.
    #[error("{kind} {name}: {source}")]
    Malformed {
        /// The kind.
        kind: String,
        /// The object's name, as far as it has one.
        name: String,
        /// What does not fit the type.
        source: serde_json::Error,
    },
    /// The object has no name.
    #[error("{kind}: metadata.name is missing; an object that is written past the API needs one")]
    Nameless {
        /// The kind.
        kind: String,
    },
    /// There is one already.
    #[error("{kind} {key} exists already")]
    Exists {
        /// The kind.
        kind: String,
        /// `namespace/name`, or the name.
        key: String,
    },
    /// There is none.
    #[error("{kind} {key} does not exist")]
    Missing {
        /// The kind.
        kind: String,
        /// `namespace/name`, or the name.
        key: String,
    },
    /// The manifest is not YAML.
    #[error("the manifest cannot be read: {0}")]
    Manifest(String),
}

/// An object, read and checked, with its key.
struct Checked {
    kind: &'static Kind,
    key: String,
    members: Map<String, Value>,
}

fn checked(kind: &'static Kind, object: Value) -> Result<Checked, StoreError> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut members = kind.normalise(object).map_err(|source| StoreError::Malformed {
        kind: kind.kind.to_owned(),
        name: name.clone(),
        source,
    })?;
    if name.is_empty() {
        return Err(StoreError::Nameless { kind: kind.kind.to_owned() });
    }
    let metadata = metadata_of(&mut members);
    let namespace = if kind.namespaced {
        let namespace = metadata
            .get("namespace")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .unwrap_or("default")
            .to_owned();
        metadata.insert("namespace".to_owned(), namespace.clone().into());
        namespace
    } else {
        metadata.shift_remove("namespace");
        String::new()
    };
    Ok(Checked { kind, key: key(&namespace, &name), members })
}

fn kind_of<T: Resource>() -> Result<&'static Kind, StoreError> {
    kind::by_type(T::API_VERSION, T::KIND).ok_or_else(|| StoreError::NotServed {
        api_version: T::API_VERSION.to_owned(),
        kind: T::KIND.to_owned(),
    })
}

fn read_typed<T: Resource + Serialize>(object: &T) -> Result<Checked, StoreError> {
    let kind = kind_of::<T>()?;
    let malformed = |source| StoreError::Malformed { kind: T::KIND.to_owned(), name: String::new(), source };
    checked(kind, serde_json::to_value(object).map_err(malformed)?)
}

fn put(transaction: &mut Transaction<'_>, object: Checked) -> u64 {
    let Checked { kind, key, members } = object;
    match transaction.state().get(kind.storage, &key).cloned() {
        Some(old) => transaction.replace(kind, &old, members).revision,
        None => transaction.create(kind, members).revision,
    }
}

impl Store {
    /// Creates or replaces an object; returns its resource version. One that says what the store has already changes
    /// nothing.
    pub fn apply<T: Resource + Serialize>(&self, object: &T) -> Result<u64, StoreError> {
        let object = read_typed(object)?;
        Ok(put(&mut self.begin(), object))
    }

    /// Creates an object, which must not exist.
    pub fn create<T: Resource + Serialize>(&self, object: &T) -> Result<u64, StoreError> {
        let object = read_typed(object)?;
        let mut transaction = self.begin();
        if transaction.state().get(object.kind.storage, &object.key).is_some() {
            return Err(StoreError::Exists { kind: T::KIND.to_owned(), key: object.key });
        }
        Ok(put(&mut transaction, object))
    }

    /// Replaces an object, which must exist.
    pub fn replace<T: Resource + Serialize>(&self, object: &T) -> Result<u64, StoreError> {
        let object = read_typed(object)?;
        let mut transaction = self.begin();
        if transaction.state().get(object.kind.storage, &object.key).is_none() {
            return Err(StoreError::Missing { kind: T::KIND.to_owned(), key: object.key });
        }
        Ok(put(&mut transaction, object))
    }

    /// Takes an object out at once, whatever finalizers it has; returns the deletion's resource version. The namespace
    /// of an object that has none is empty.
    pub fn delete<T: Resource>(&self, namespace: &str, name: &str) -> Result<u64, StoreError> {
        let kind = kind_of::<T>()?;
        let key = key(namespace, name);
        let removed = self.begin().remove(kind.storage, &key);
        removed
            .map(|object| object.revision)
            .ok_or_else(|| StoreError::Missing { kind: T::KIND.to_owned(), key })
    }

    /// Creates or replaces many objects under one lock: quick, and no reader sees half of them. Nothing is written when
    /// one of them is refused. Returns the newest resource version.
    pub fn load<'a, T: Resource + Serialize + 'a>(
        &self,
        objects: impl IntoIterator<Item = &'a T>,
    ) -> Result<u64, StoreError> {
        let objects: Vec<Checked> = objects.into_iter().map(read_typed).collect::<Result<_, _>>()?;
        let mut transaction = self.begin();
        for object in objects {
            put(&mut transaction, object);
        }
        Ok(transaction.state().revision())
    }

    /// Creates or replaces the objects of a manifest in YAML (or JSON): documents, and lists of objects within them.
    /// Nothing is written when one of them is refused. Returns how many there were.
    pub fn apply_manifests(&self, text: &str) -> Result<usize, StoreError> {
        let objects = manifest_objects(text)?;
        let count = objects.len();
        let mut transaction = self.begin();
        for object in objects {
            put(&mut transaction, object);
        }
        Ok(count)
    }

    /// Takes the objects of a manifest out; those that do not exist are no error. Returns how many there were.
    pub fn delete_manifests(&self, text: &str) -> Result<usize, StoreError> {
        let objects = manifest_objects(text)?;
        let mut transaction = self.begin();
        Ok(objects
            .into_iter()
            .filter_map(|object| transaction.remove(object.kind.storage, &object.key))
            .count())
    }

    /// An object as its type. The namespace of an object that has none is empty.
    pub fn get<T: Resource + DeserializeOwned>(&self, namespace: &str, name: &str) -> Option<T> {
        let kind = kind_of::<T>().ok()?;
        let object = self.read(|state| state.get(kind.storage, &key(namespace, name)).cloned())?;
        typed_of(kind, &object.json)
    }

    /// All objects of a type, in the server's order.
    pub fn list<T: Resource + DeserializeOwned>(&self) -> Vec<T> {
        let Ok(kind) = kind_of::<T>() else { return Vec::new() };
        let objects: Vec<_> = self.read(|state| state.all(kind.storage).cloned().collect());
        objects.iter().filter_map(|object| typed_of(kind, &object.json)).collect()
    }

    /// Changes an object with a function, under the lock; returns its resource version.
    pub fn modify<T>(
        &self,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<u64, StoreError>
    where
        T: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned,
    {
        let kind = kind_of::<T>()?;
        let key = key(namespace, name);
        let mut transaction = self.begin();
        let old = transaction.state().get(kind.storage, &key);
        let missing = || StoreError::Missing { kind: T::KIND.to_owned(), key: key.clone() };
        let mut object: T = old.and_then(|old| typed_of(kind, &old.json)).ok_or_else(missing)?;
        change(&mut object);
        let object = read_typed(&object)?;
        if object.key != key {
            return Err(missing());
        }
        Ok(put(&mut transaction, object))
    }

    /// How many objects of a type there are.
    pub fn count<T: Resource>(&self) -> usize {
        kind_of::<T>().map_or(0, |kind| self.read(|state| state.count(kind.storage)))
    }
}

fn typed_of<T: Resource + DeserializeOwned>(kind: &Kind, json: &[u8]) -> Option<T> {
    let mut members = match kind.shown(json) {
        Some(members) => members,
        None => serde_json::from_slice(json).ok()?,
    };
    members.insert("apiVersion".to_owned(), T::API_VERSION.into());
    members.insert("kind".to_owned(), T::KIND.into());
    serde_json::from_value(Value::Object(members)).ok()
}

fn manifest_objects(text: &str) -> Result<Vec<Checked>, StoreError> {
    let documents = yaml::documents(text).map_err(StoreError::Manifest)?;
    let mut objects = Vec::new();
    for document in documents {
        let items = match document {
            Value::Null => Vec::new(),
            Value::Object(mut members)
                if members.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List")) =>
            {
                match members.shift_remove("items") {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                }
            }
            other => vec![other],
        };
        for item in items {
            let text = |member: &str| item.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            let Some(known) = kind::by_type(&api_version, &kind) else {
                return Err(StoreError::NotServed { api_version, kind });
            };
            objects.push(checked(known, item)?);
        }
    }
    Ok(objects)
}
