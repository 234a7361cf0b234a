//! Which names objects may have, and names made up for those who leave that to the server.
//!
//! This module must not know kinds or stores.

use hcn::time::Entropy;

/// A DNS label: up to 63 of `a-z0-9-`, with a letter or digit at both ends.
pub(crate) fn is_label(text: &str) -> bool {
    let ends =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

/// A DNS subdomain: labels of any length with dots between, 253 in all.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let ends =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            ends(bytes.first())
                && ends(bytes.last())
                && bytes
                    .iter()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
        })
}

/// A name that begins with `base`: five characters that form no words follow, and a base that is too long is cut.
pub(crate) fn generated(base: &str, entropy: &dyn Entropy) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name: String = base.chars().take(58).collect();
    for _ in 0..5 {
        let at = usize::try_from(entropy.below(LETTERS.len() as u64)).unwrap_or(0);
        name.push(char::from(LETTERS[at]));
    }
    name
}

/// A random UUID from the server's own randomness.
pub(crate) fn uid(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&entropy.next_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&entropy.next_u64().to_be_bytes());
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
