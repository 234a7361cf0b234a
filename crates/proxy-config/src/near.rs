//! The known word that a mistyped one was probably meant to be.
//!
//! It must not know what the words stand for.

/// The nearest of `known`, if it is near: few letters differ, or only their case.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer words are no typing errors, and comparing them would cost.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len() / 4 + 1)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out or changed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_were_meant() {
        let known = ["networkName", "sourceVip", "enableDSR"];
        let table = [
            ("netwrokName", Some("networkName")),
            ("sourceVIP", Some("sourceVip")),
            ("enableDsr", Some("enableDSR")),
            ("x", None),
            ("somethingElse", None),
            ("", None),
        ];
        for (word, want) in table {
            assert_eq!(nearest(word, known), want, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1000), known), None);
    }
}
