//! The plain text of the verbs. Lines end with CR LF; an empty line follows each object.

pub(crate) mod counters;
pub(crate) mod flows;
pub(crate) mod layers;
pub(crate) mod nat;
pub(crate) mod ports;
pub(crate) mod tuples;

/// A list without items.
pub(crate) const EMPTY: &str = " ITEM LIST\n===========\n\n";

/// The heading of a table.
pub(crate) fn heading() -> String {
    EMPTY.to_owned()
}

/// Ends the output as every verb does, and its lines as Windows does.
pub(crate) fn finish(body: &str, verb: &str) -> String {
    let mut text = body.replace('\n', "\r\n");
    text.push_str("Command ");
    text.push_str(verb);
    text.push_str(" succeeded!\r\n");
    text
}

/// A port's name as the tool prints it.
pub(crate) fn guid(name: uuid::Uuid) -> String {
    name.hyphenated().to_string().to_ascii_uppercase()
}
