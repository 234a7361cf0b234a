//! Label and field selectors: the whole grammar of both, and whether an object matches.
//!
//! This module must not know requests or stores.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::Kind;

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Missing(String),
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Greater(String, i64),
    Less(String, i64),
}

/// A label selector: all requirements hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    Open,
    Close,
    Comma,
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let sign = ["!=", "==", "=", "!", ">", "<"].into_iter().find(|sign| rest.starts_with(*sign));
        let length = if let Some(sign) = sign {
            found.push(Token::Sign(sign));
            sign.len()
        } else if matches!(first, '(' | ')' | ',') {
            found.push(match first {
                '(' => Token::Open,
                ')' => Token::Close,
                _ => Token::Comma,
            });
            1
        } else if matches!(first, ' ' | '\t' | '\r' | '\n') {
            1
        } else {
            let end =
                rest.find([' ', '\t', '\r', '\n', '!', '=', '<', '>', '(', ')', ',']).unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned()));
            end
        };
        rest = &rest[length..];
    }
    if text.chars().any(|c| c == '\0') { Err("a selector has a NUL in it".to_owned()) } else { Ok(found) }
}

impl LabelSelector {
    /// Reads a selector; an empty one matches everything.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, at: 0, text };
        let mut requirements = Vec::new();
        while parser.peek().is_some() {
            requirements.push(parser.requirement()?);
            match parser.next() {
                None => {}
                Some(Token::Comma) if parser.peek().is_some() => {}
                Some(other) => {
                    return Err(parser.unexpected(Some(other), "',' and another requirement, or the end"));
                }
            }
        }
        Ok(Self { requirements })
    }

    /// Whether nothing is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether all requirements hold.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &str| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Missing(key) => !labels.contains_key(key),
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Greater(key, bound) => number(key).is_some_and(|value| value > *bound),
            Requirement::Less(key, bound) => number(key).is_some_and(|value| value < *bound),
        })
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    text: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&'a Token> {
        let token = self.tokens.get(self.at);
        self.at += usize::from(token.is_some());
        token
    }

    fn unexpected(&self, token: Option<&Token>, wanted: &str) -> String {
        let found = match token {
            None => "the end".to_owned(),
            Some(Token::Word(word)) => format!("'{word}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            Some(Token::Open) => "'('".to_owned(),
            Some(Token::Close) => "')'".to_owned(),
            Some(Token::Comma) => "','".to_owned(),
        };
        format!("unable to parse the label selector \"{}\": found {found}, wanted {wanted}", self.text)
    }

    fn key(&mut self) -> Result<String, String> {
        match self.next() {
            Some(Token::Word(word)) => label_key(word).map(|()| word.clone()),
            other => Err(self.unexpected(other, "a label's key")),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.peek() == Some(&Token::Sign("!")) {
            self.at += 1;
            return Ok(Requirement::Missing(self.key()?));
        }
        let key = self.key()?;
        match self.peek() {
            None | Some(Token::Comma) => Ok(Requirement::Exists(key)),
            Some(Token::Sign("=" | "==")) => Ok(Requirement::In(key, self.one_value()?)),
            Some(Token::Sign("!=")) => Ok(Requirement::NotIn(key, self.one_value()?)),
            Some(Token::Sign(sign @ (">" | "<"))) => {
                let bound = self.one_value()?.pop_first().unwrap_or_default();
                let bound = bound
                    .parse()
                    .map_err(|_| format!("'{key} {sign} {bound}': the bound must be a whole number"))?;
                Ok(if *sign == ">" {
                    Requirement::Greater(key, bound)
                } else {
                    Requirement::Less(key, bound)
                })
            }
            Some(Token::Word(word)) if word == "in" => Ok(Requirement::In(key, self.values()?)),
            Some(Token::Word(word)) if word == "notin" => Ok(Requirement::NotIn(key, self.values()?)),
            other => Err(self.unexpected(other, "one of =, ==, !=, >, <, in, notin, ','")),
        }
    }

    /// The value after a sign; none is the empty value.
    fn one_value(&mut self) -> Result<BTreeSet<String>, String> {
        self.at += 1;
        let value = match self.peek() {
            None | Some(Token::Comma) => String::new(),
            Some(Token::Word(word)) => {
                self.at += 1;
                label_value(word)?;
                word.clone()
            }
            other => return Err(self.unexpected(other, "a label's value")),
        };
        Ok(BTreeSet::from([value]))
    }

    /// A list of values in brackets; nothing between two commas is the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        self.at += 1;
        match self.next() {
            Some(Token::Open) => {}
            other => return Err(self.unexpected(other, "'('")),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Some(Token::Word(word)) => {
                    self.at += 1;
                    label_value(word)?;
                    word.clone()
                }
                Some(Token::Comma | Token::Close) => String::new(),
                other => return Err(self.unexpected(other, "a label's value, ',' or ')'")),
            };
            values.insert(value);
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => return Ok(values),
                other => return Err(self.unexpected(other, "',' or ')'")),
            }
        }
    }
}

/// A name that may stand in a label: letters, digits, `-`, `_`, `.`, with a letter or digit at both ends.
fn label_name(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

pub(crate) fn label_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if label_name(name) && prefix.is_none_or(crate::names::is_subdomain) {
        return Ok(());
    }
    Err(format!(
        "'{key}' is not a label's key: [prefix/]name, the prefix a DNS name, the name up to 63 letters, digits, '-', '_' or '.'"
    ))
}

pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.is_empty() || label_name(value) {
        return Ok(());
    }
    Err(format!("'{value}' is not a label's value: up to 63 letters, digits, '-', '_' or '.', or nothing"))
}

/// Which field a requirement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldOf {
    Name,
    Namespace,
    /// The number of the kind's own field.
    Own(usize),
}

/// A field selector: all requirements hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    requirements: Vec<(FieldOf, bool, String)>,
}

impl FieldSelector {
    /// Reads a selector of a kind; a field that the kind does not offer is an error.
    pub(crate) fn parse(text: &str, kind: &Kind) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in split_unescaped(text).into_iter().filter(|term| !term.is_empty()) {
            let (label, equal, value) = split_term(term).ok_or_else(|| {
                format!("invalid selector: '{text}'; can't understand '{term}', wanted field=value")
            })?;
            let field = match label {
                "metadata.name" => FieldOf::Name,
                "metadata.namespace" => FieldOf::Namespace,
                _ => FieldOf::Own(
                    kind.field(label).ok_or_else(|| format!("field label not supported: {label}"))?,
                ),
            };
            requirements.push((field, equal, unescape(value)?));
        }
        Ok(Self { requirements })
    }

    /// Whether nothing is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether all requirements hold.
    pub(crate) fn matches(&self, namespace: &str, name: &str, fields: &[String]) -> bool {
        self.requirements.iter().all(|(field, equal, wanted)| {
            let value = match field {
                FieldOf::Name => name,
                FieldOf::Namespace => namespace,
                FieldOf::Own(index) => fields.get(*index).map_or("", String::as_str),
            };
            (value == wanted) == *equal
        })
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[at..].strip_prefix(sign) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
            },
            '=' | ',' => {
                return Err(format!(
                    "invalid field selector: '{c}' in the value '{value}' must be written as \\{c}"
                ));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}
