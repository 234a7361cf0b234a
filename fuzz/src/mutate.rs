//! A small mutator: turns seeds into inputs that nearly make sense, the same ones for the same seed number.
//!
//! It has no feedback from coverage; the dictionary and the seeds take its place. It must not know what is fuzzed.

use hcn::time::{Entropy, SeededEntropy};

/// Longer inputs are cut: they cost time and find little.
const LONGEST: usize = 1 << 16;

/// Numbers at which counters, ports, lengths and their parsers turn over.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "7",
    "63",
    "64",
    "65",
    "255",
    "256",
    "4095",
    "4096",
    "32767",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e309",
    "1e-400",
    "0.1",
    "1.5",
    "00",
    "0x41",
];

/// Makes inputs.
pub struct Mutator<'a> {
    entropy: SeededEntropy,
    corpus: &'a [Vec<u8>],
    dictionary: &'a [&'a str],
}

impl<'a> Mutator<'a> {
    /// A mutator of a corpus, which must not be empty for anything to come of it.
    pub fn new(seed: u64, corpus: &'a [Vec<u8>], dictionary: &'a [&'a str]) -> Self {
        Self { entropy: SeededEntropy::new(seed), corpus, dictionary }
    }

    /// The next input: one of the corpus, changed in one to eight places.
    pub fn next_input(&self) -> Vec<u8> {
        let mut input = self.pick(self.corpus).cloned().unwrap_or_default();
        // One change in half of the cases: with more, little is read any further.
        let changes = 1 + self.below(2) * self.below(8);
        for _ in 0..changes {
            self.change(&mut input);
            input.truncate(LONGEST);
        }
        input
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.entropy.below(bound as u64)).unwrap_or(0)
    }

    fn pick<T>(&self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A part of the input: mostly short, sometimes anything.
    fn range(&self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = if self.below(4) == 0 { length - start } else { (length - start).min(16) };
        start..start + self.below(most + 1)
    }

    fn change(&self, input: &mut Vec<u8>) {
        match self.below(14) {
            0 => {
                if let Some(at) = self.position(input) {
                    input[at] ^= 1 << self.below(8);
                }
            }
            1 => {
                if let Some(at) = self.position(input) {
                    input[at] = self.below(256).to_le_bytes()[0];
                }
            }
            2 => {
                input.drain(self.range(input.len()));
            }
            3 => input.truncate(self.below(input.len() + 1)),
            4 => {
                // A part comes twice, or very often: lists grow, names repeat, nesting deepens.
                let part = input[self.range(input.len())].to_vec();
                let times = if self.below(8) == 0 { 1 + self.below(2000) } else { 1 };
                let at = self.below(input.len() + 1);
                let repeated = part.repeat(times.min(LONGEST / part.len().max(1)));
                input.splice(at..at, repeated);
            }
            5 => {
                let part = input[self.range(input.len())].to_vec();
                let at = self.below(input.len() + 1);
                input.splice(at..at, part);
            }
            6 | 7 => {
                let word = self.pick(self.dictionary).copied().unwrap_or_default();
                let at = self.range(input.len());
                let at = if self.below(2) == 0 { at.start..at.start } else { at };
                input.splice(at, word.bytes());
            }
            8 | 9 => self.change_number(input),
            10 => {
                // The head of one input and the tail of another.
                let other = self.pick(self.corpus).map(Vec::as_slice).unwrap_or_default();
                input.truncate(self.below(input.len() + 1));
                input.extend_from_slice(&other[self.below(other.len() + 1)..]);
            }
            11 => {
                let at = self.below(input.len() + 1);
                let bytes: Vec<u8> = (0..=self.below(8)).map(|_| self.below(256).to_le_bytes()[0]).collect();
                input.splice(at..at, bytes);
            }
            12 => self.swap_lines(input),
            _ => {
                if let Some(at) = self.position(input) {
                    input[at] = if input[at].is_ascii_lowercase() {
                        input[at].to_ascii_uppercase()
                    } else {
                        input[at].to_ascii_lowercase()
                    };
                }
            }
        }
    }

    fn position(&self, input: &[u8]) -> Option<usize> {
        (!input.is_empty()).then(|| self.below(input.len()))
    }

    /// Puts an interesting number in the place of one that is there.
    fn change_number(&self, input: &mut Vec<u8>) {
        let Some(from) = self.position(input) else { return };
        let Some(start) = input[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else {
            return;
        };
        let end = input[start..]
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .map_or(input.len(), |at| start + at);
        let number = self.pick(NUMBERS).copied().unwrap_or_default();
        input.splice(start..end, number.bytes());
    }

    /// Swaps two lines, or two items of a list on one line.
    fn swap_lines(&self, input: &mut Vec<u8>) {
        let separator = if input.contains(&b'\n') { b'\n' } else { b',' };
        let mut parts: Vec<&[u8]> = input.split(|byte| *byte == separator).collect();
        let (left, right) = (self.below(parts.len()), self.below(parts.len()));
        parts.swap(left, right);
        *input = parts.join(&separator);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn corpus() -> Vec<Vec<u8>> {
        [&b"{\"Port\": 80, \"Name\": \"a\"}"[..], b"kind: Service\nport: 8080\n", b""]
            .map(<[u8]>::to_vec)
            .to_vec()
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let corpus = corpus();
        let make = |seed| {
            let mutator = Mutator::new(seed, &corpus, &["word"]);
            (0..500).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(make(3), make(3));
        assert_ne!(make(3), make(4));
    }

    #[test]
    fn inputs_differ_are_bounded_and_use_the_dictionary() {
        let corpus = corpus();
        let mutator = Mutator::new(1, &corpus, &["DICTIONARY"]);
        let inputs: BTreeSet<Vec<u8>> = (0..5000).map(|_| mutator.next_input()).collect();
        assert!(inputs.len() > 2000, "{} different inputs", inputs.len());
        assert!(inputs.iter().all(|input| input.len() <= LONGEST));
        let with = |word: &[u8]| {
            inputs.iter().filter(|input| input.windows(word.len()).any(|part| part == word)).count()
        };
        assert!(with(b"DICTIONARY") > 100);
        assert!(with(b"18446744073709551616") > 10);
    }

    #[test]
    fn an_empty_corpus_is_no_trouble() {
        let mutator = Mutator::new(1, &[], &[]);
        for _ in 0..1000 {
            mutator.next_input();
        }
    }
}
