//! Who asks, and what they may do: tokens, client certificates, allow lists.
//!
//! As upstream, credentials that are wrong are refused (401) even where nobody needs any, and members of
//! `system:masters` may do everything. This module must not know requests' bodies or objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// As in `system:serviceaccount:kube-system:proxy`.
    pub name: String,
    /// Groups, without those that everybody is in.
    pub groups: Vec<String>,
}

impl User {
    /// A user in no group.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), groups: Vec::new() }
    }

    /// A user in groups.
    pub fn in_groups(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    fn anonymous() -> Self {
        Self::in_groups("system:anonymous", &["system:unauthenticated"])
    }
}

/// Something that is allowed. `*` stands for everything in each list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// The name of a user, or of a group.
    pub subject: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verbs: Vec<String>,
    /// `services`, `services/status`, `endpointslices.discovery.k8s.io`, or a path, as `/version`.
    pub resources: Vec<String>,
    /// Only in this namespace.
    pub namespace: Option<String>,
}

impl Allow {
    /// Lets a user or group use verbs on resources everywhere.
    pub fn new(subject: &str, verbs: &[&str], resources: &[&str]) -> Self {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { subject: subject.to_owned(), verbs: own(verbs), resources: own(resources), namespace: None }
    }

    /// The same in one namespace only.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }
}

/// What is asked, as far as rights go.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) verb: &'a str,
    /// `services` or `services/status`; the path where it is no resource.
    pub(crate) resource: &'a str,
    /// `services.` and the group; empty for core.
    pub(crate) group: &'a str,
    pub(crate) namespace: &'a str,
}

#[derive(Debug, Default)]
struct State {
    tokens: BTreeMap<String, User>,
    /// Certificates by their bytes: the server knows each one that it has issued.
    certificates: BTreeMap<Vec<u8>, Option<User>>,
    anonymous: bool,
    /// None: everybody may do everything.
    rules: Option<Vec<Allow>>,
}

/// Credentials and rights, changeable while the server runs. Clones are handles on the same ones.
#[derive(Debug, Clone)]
pub struct Access {
    state: Arc<Mutex<State>>,
}

impl Access {
    pub(crate) fn new(anonymous: bool) -> Self {
        Self { state: Arc::new(Mutex::new(State { anonymous, ..State::default() })) }
    }

    /// Makes a token for a user. A secret: its randomness is the operating system's, not the server's seed.
    pub fn issue_token(&self, user: User) -> String {
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        self.set_token(&token, user);
        token
    }

    /// Lets a token of the caller's stand for a user.
    pub fn set_token(&self, token: &str, user: User) {
        self.state.lock().tokens.insert(token.to_owned(), user);
    }

    /// From now on a token is wrong.
    pub fn revoke_token(&self, token: &str) {
        self.state.lock().tokens.remove(token);
    }

    /// A certificate stands for a user; with none, for nobody, as one that has expired.
    pub(crate) fn set_certificate(&self, der: &[u8], user: Option<User>) {
        self.state.lock().certificates.insert(der.to_vec(), user);
    }

    /// Whether requests without credentials are let in, as `system:anonymous`.
    pub fn allow_anonymous(&self, allow: bool) {
        self.state.lock().anonymous = allow;
    }

    /// Everybody may do everything: how the server starts.
    pub fn allow_everything(&self) {
        self.state.lock().rules = None;
    }

    /// From now on only what a rule allows may be done.
    pub fn allow_only(&self, rules: Vec<Allow>) {
        self.state.lock().rules = Some(rules);
    }

    /// Who asks; none where the credentials are missing or wrong.
    pub(crate) fn authenticate(
        &self,
        certificate: Option<&[u8]>,
        authorization: Option<&str>,
    ) -> Option<User> {
        let state = self.state.lock();
        let known = |mut user: User| {
            user.groups.push("system:authenticated".to_owned());
            user
        };
        // A certificate is looked at first, and a token only where the certificate says nobody.
        let by_certificate = certificate.map(|der| state.certificates.get(der).cloned().flatten());
        if let Some(Some(user)) = by_certificate {
            return Some(known(user));
        }
        let token = authorization.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match token.filter(|token| !token.is_empty()) {
            Some(token) => state.tokens.get(token).cloned().map(known),
            None if by_certificate.is_some() => None,
            None => state.anonymous.then(User::anonymous),
        }
    }

    /// Whether a user may do that.
    pub(crate) fn allows(&self, user: &User, question: &Question<'_>) -> bool {
        let state = self.state.lock();
        let Some(rules) = &state.rules else { return true };
        if user.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        let qualified = if question.group.is_empty() {
            question.resource.to_owned()
        } else {
            format!("{}.{}", question.resource, question.group)
        };
        let listed = |list: &[String], word: &str| list.iter().any(|entry| entry == "*" || entry == word);
        rules.iter().any(|rule| {
            (rule.subject == "*" || rule.subject == user.name || user.groups.contains(&rule.subject))
                && listed(&rule.verbs, question.verb)
                && (listed(&rule.resources, question.resource) || listed(&rule.resources, &qualified))
                && rule.namespace.as_deref().is_none_or(|namespace| namespace == question.namespace)
        })
    }
}
