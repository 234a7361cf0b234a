//! YAML as it is read and written here: strictly, so that a slip of the pen is an error and not a default.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads one document: a key given twice, a second document or `yes` for a truth value is an error.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    // By way of a value that keeps a quoted text apart from a number or truth value, as the API server does.
    let value: serde_json::Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().to_string() {
        path if path == "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    })
}

/// Writes one document.
pub(super) fn write<T: Serialize>(value: &T) -> Result<String, String> {
    let mut text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
