//! The part of kustomize that `deploy/` is written in, so that the program prints what `kubectl kustomize` would.
//!
//! | field | what is taken |
//! |---|---|
//! | `resources` | files with one document, and folders with a `kustomization.yaml` |
//! | `components` | folders with a `kustomization.yaml` of kind Component |
//! | `configMapGenerator` | `name` and `files`, without a hash in the name (`generatorOptions.disableNameSuffixHash: true`) |
//! | `patches` | JSON6902 in a file, with a `target` of group, version, kind and name that names one object |
//! | `images` | `name` with `newName`, `newTag`, `digest` |
//! | `namespace` | metadata of namespaced kinds and subjects of bindings |
//!
//! Everything else is an error that names the file and the field. It must not know what the objects are for.

use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::bundle::{Bundle, join};
use super::yaml;

/// What is wrong with a kustomization, or with what it names.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KustomizeError {
    /// A file that is named and not there.
    #[error("{by}: {path} is not there")]
    Missing {
        /// The file that names it.
        by: String,
        /// What it names.
        path: String,
    },
    /// A file that cannot be read as what it must be.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Something that is not in the subset, or contradicts itself.
    #[error("{path}: {field}: {why}")]
    Refused {
        /// The file.
        path: String,
        /// The field.
        field: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kustomization {
    api_version: String,
    kind: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    components: Vec<String>,
    #[serde(default)]
    generator_options: Option<GeneratorOptions>,
    #[serde(default)]
    config_map_generator: Vec<ConfigMapGenerator>,
    #[serde(default)]
    patches: Vec<Patch>,
    #[serde(default)]
    images: Vec<Image>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GeneratorOptions {
    disable_name_suffix_hash: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigMapGenerator {
    name: String,
    files: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Patch {
    path: String,
    target: Target,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Target {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
    name: String,
}

/// Another image for a container: an entry of `images`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// The image's name as it stands, without tag and digest.
    pub name: String,
    /// Its name from now on.
    #[serde(default)]
    pub new_name: Option<String>,
    /// Its tag from now on.
    #[serde(default)]
    pub new_tag: Option<String>,
    /// Its digest from now on, instead of a tag.
    #[serde(default)]
    pub digest: Option<String>,
}

/// Kinds whose objects are in a namespace, and kinds whose objects are not.
const NAMESPACED: &[&str] =
    &["ConfigMap", "DaemonSet", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount"];
const OF_THE_CLUSTER: &[&str] = &["ClusterRole", "ClusterRoleBinding", "Namespace", "PriorityClass"];

/// Builds the objects of a folder.
pub fn build(bundle: Bundle<'_>, folder: &str) -> Result<Vec<Value>, KustomizeError> {
    let mut objects = Vec::new();
    Folder::open(bundle, folder)?.build(Expect::Kustomization, &mut objects, 0)?;
    Ok(objects)
}

/// Lets a component change objects that are built.
pub fn add_component(
    bundle: Bundle<'_>,
    folder: &str,
    objects: &mut Vec<Value>,
) -> Result<(), KustomizeError> {
    Folder::open(bundle, folder)?.build(Expect::Component, objects, 0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Kustomization,
    Component,
}

/// Deeper than anybody nests; a folder that names itself ends here.
const MAX_DEPTH: usize = 8;

struct Folder<'a> {
    bundle: Bundle<'a>,
    at: String,
    /// The path of its kustomization.
    path: String,
    kustomization: Kustomization,
}

impl<'a> Folder<'a> {
    fn open(bundle: Bundle<'a>, folder: &str) -> Result<Self, KustomizeError> {
        let path = format!("{folder}/kustomization.yaml");
        let text = bundle
            .text(&path)
            .ok_or_else(|| KustomizeError::Missing { by: folder.to_owned(), path: path.clone() })?;
        let kustomization =
            yaml::read(text).map_err(|why| KustomizeError::Unreadable { path: path.clone(), why })?;
        Ok(Self { bundle, at: folder.to_owned(), path, kustomization })
    }

    fn build(&self, expect: Expect, objects: &mut Vec<Value>, depth: usize) -> Result<(), KustomizeError> {
        if depth > MAX_DEPTH {
            return Err(self.refused("resources", "folders are nested too deeply, or one names itself"));
        }
        let found = (&*self.kustomization.api_version, &*self.kustomization.kind);
        let right = match expect {
            Expect::Kustomization => ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
            Expect::Component => ("kustomize.config.k8s.io/v1alpha1", "Component"),
        };
        if found != right {
            let why = format!("{} {} is not {} {}", found.0, found.1, right.0, right.1);
            return Err(self.refused("kind", why));
        }
        for resource in &self.kustomization.resources {
            let (path, is_folder) = self.locate(resource)?;
            if is_folder {
                let mut own = Vec::new();
                Self::open(self.bundle, &path)?.build(Expect::Kustomization, &mut own, depth + 1)?;
                for object in own {
                    self.add(object, "resources", objects)?;
                }
            } else {
                self.add(self.read(&path)?, "resources", objects)?;
            }
        }
        for component in &self.kustomization.components {
            let (path, is_folder) = self.locate(component)?;
            if !is_folder {
                return Err(self.refused("components", format!("{component} is not a folder")));
            }
            Self::open(self.bundle, &path)?.build(Expect::Component, objects, depth + 1)?;
        }
        for generator in &self.kustomization.config_map_generator {
            self.add(self.config_map(generator)?, "configMapGenerator", objects)?;
        }
        for patch in &self.kustomization.patches {
            self.patch(patch, objects)?;
        }
        if let Some(namespace) = &self.kustomization.namespace {
            set_namespace(objects, namespace).map_err(|why| self.refused("namespace", why))?;
        }
        for image in &self.kustomization.images {
            set_image(objects, image).map_err(|why| self.refused("images", why))?;
        }
        Ok(())
    }

    fn refused(&self, field: &str, why: impl Into<String>) -> KustomizeError {
        KustomizeError::Refused { path: self.path.clone(), field: field.to_owned(), why: why.into() }
    }

    /// The path below the bundle, and whether it is a folder.
    fn locate(&self, name: &str) -> Result<(String, bool), KustomizeError> {
        let missing = || KustomizeError::Missing { by: self.path.clone(), path: name.to_owned() };
        let path = join(&self.at, name).ok_or_else(missing)?;
        match (self.bundle.text(&path), self.bundle.is_folder(&path)) {
            (Some(_), _) => Ok((path, false)),
            (None, true) => Ok((path, true)),
            (None, false) => Err(missing()),
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, KustomizeError> {
        let text = self
            .bundle
            .text(path)
            .ok_or_else(|| KustomizeError::Missing { by: self.path.clone(), path: path.to_owned() })?;
        yaml::read(text).map_err(|why| KustomizeError::Unreadable { path: path.to_owned(), why })
    }

    fn add(&self, object: Value, field: &str, objects: &mut Vec<Value>) -> Result<(), KustomizeError> {
        let new = Identity::of(&object).map_err(|why| self.refused(field, why))?;
        if objects.iter().any(|old| Identity::of(old).as_ref() == Ok(&new)) {
            return Err(self.refused(field, format!("{} {} is there already", new.kind, new.name)));
        }
        objects.push(object);
        Ok(())
    }

    fn config_map(&self, generator: &ConfigMapGenerator) -> Result<Value, KustomizeError> {
        if !self.kustomization.generator_options.as_ref().is_some_and(|it| it.disable_name_suffix_hash) {
            let why = "disableNameSuffixHash must be true: names with a hash are not made";
            return Err(self.refused("generatorOptions", why));
        }
        let mut data = Map::new();
        for file in &generator.files {
            if file.contains('=') || file.contains('/') {
                let why = format!("{file}: files are named by their bare names, without key= and folder");
                return Err(self.refused("configMapGenerator.files", why));
            }
            let (path, is_folder) = self.locate(file)?;
            let Some(text) = self.bundle.text(&path).filter(|_| !is_folder) else {
                return Err(self.refused("configMapGenerator.files", format!("{file} is a folder")));
            };
            data.insert(file.clone(), text.into());
        }
        Ok(
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": generator.name }, "data": data }),
        )
    }

    fn patch(&self, patch: &Patch, objects: &mut [Value]) -> Result<(), KustomizeError> {
        let (file, _) = self.locate(&patch.path)?;
        let operations: Vec<PatchOperation> = self.read(&file)?;
        let target = &patch.target;
        let api_version = match &*target.group {
            "" => target.version.clone(),
            group => format!("{group}/{}", target.version),
        };
        let wanted = Identity { api_version: &api_version, kind: &target.kind, name: &target.name };
        let object = objects.iter_mut().find(|object| Identity::of(object).as_ref() == Ok(&wanted));
        let Some(object) = object else {
            let why = format!("there is no {} {api_version} {}", target.kind, target.name);
            return Err(self.refused("patches.target", why));
        };
        json_patch::patch(object, &operations).map_err(|error| {
            let why = format!("operation {} on {}: {}", error.operation, error.path, error.kind);
            KustomizeError::Unreadable { path: file, why }
        })
    }
}

/// What tells one object from another before it has a namespace.
#[derive(Debug, PartialEq, Eq)]
struct Identity<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Identity<'a> {
    fn of(object: &'a Value) -> Result<Self, String> {
        let text = |value: &'a Value, field: &str| {
            value.as_str().ok_or_else(|| format!("an object without {field}; each needs one"))
        };
        Ok(Self {
            api_version: text(&object["apiVersion"], "apiVersion")?,
            kind: text(&object["kind"], "kind")?,
            name: text(&object["metadata"]["name"], "metadata.name")?,
        })
    }
}

/// Puts every namespaced object, and every service account that a binding names, into a namespace.
pub fn set_namespace(objects: &mut [Value], namespace: &str) -> Result<(), String> {
    let accounts: Vec<String> = objects
        .iter()
        .filter(|object| object["kind"] == "ServiceAccount")
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if NAMESPACED.contains(&&*kind) {
            object["metadata"]["namespace"] = namespace.into();
        } else if !OF_THE_CLUSTER.contains(&&*kind) {
            return Err(format!("it is not known whether objects of kind {kind:?} are in a namespace"));
        }
        if !matches!(&*kind, "ClusterRoleBinding" | "RoleBinding") {
            continue;
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            let ours = subject["name"].as_str().is_some_and(|name| accounts.iter().any(|it| it == name));
            if subject["kind"] == "ServiceAccount" && ours {
                subject["namespace"] = namespace.into();
            }
        }
    }
    Ok(())
}

/// Gives containers another image. It is an error when no container has the image.
pub fn set_image(objects: &mut [Value], image: &Image) -> Result<(), String> {
    if image.new_tag.is_some() && image.digest.is_some() {
        return Err(format!("{}: newTag and digest exclude each other", image.name));
    }
    let mut found = false;
    for object in objects {
        for list in ["initContainers", "containers"] {
            let containers = object.pointer_mut(&format!("/spec/template/spec/{list}"));
            for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
                let Some(now) = container.get("image").and_then(Value::as_str) else { continue };
                let (name, rest) = split_image(now);
                if name != image.name {
                    continue;
                }
                found = true;
                let name = image.new_name.as_deref().unwrap_or(name);
                let new = match (&image.new_tag, &image.digest) {
                    (Some(tag), _) => format!("{name}:{tag}"),
                    (None, Some(digest)) => format!("{name}@{digest}"),
                    (None, None) => format!("{name}{rest}"),
                };
                container["image"] = new.into();
            }
        }
    }
    if found { Ok(()) } else { Err(format!("no container has the image {:?}", image.name)) }
}

/// An image's name, and its tag or digest with the sign before it.
pub fn split_image(image: &str) -> (&str, &str) {
    if let Some(at) = image.find('@') {
        return image.split_at(at);
    }
    // A colon before the last slash is that of a registry's port.
    let name = image.rfind('/').map_or(0, |slash| slash + 1);
    match image[name..].find(':') {
        Some(colon) => image.split_at(name + colon),
        None => (image, ""),
    }
}

#[cfg(test)]
#[path = "kustomize_tests.rs"]
mod tests;
