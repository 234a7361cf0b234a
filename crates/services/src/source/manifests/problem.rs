//! What is wrong with a manifest, said so that it can be found and mended.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Something in a manifest that could not be used, or is used otherwise than it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file, as it was named or found; `-` for standard input.
    pub file: Arc<str>,
    /// Which document of the file, counted from 1; 0 when it is about the file as a whole.
    pub document: usize,
    /// The line in the file, counted from 1, where it is known.
    pub line: Option<u64>,
    /// The object, as `Kind namespace/name`, where it could be identified.
    pub object: Option<String>,
    /// The field's path within the object, or within the document when the object is unknown.
    pub field: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem of a file as a whole.
    pub(super) fn of_file(file: &Arc<str>, message: impl Into<String>) -> Self {
        Self {
            file: file.clone(),
            document: 0,
            line: None,
            object: None,
            field: None,
            message: message.into(),
        }
    }
}

/// One line: `shop.yaml:12: Service shop/web: spec.ports[0].port 70000 is not a port; use 1 to 65535`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.line {
            Some(line) => write!(f, ":{line}: ")?,
            None if self.document > 0 => write!(f, " (document {}): ", self.document)?,
            None => f.write_str(": ")?,
        }
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        // A message may quote input; it stays one line.
        for c in self.message.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}
