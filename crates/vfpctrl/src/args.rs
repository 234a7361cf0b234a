//! The command line of `vfpctrl`.

use crate::CtrlError;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The ports of the switch.
    ListVmswitchPort,
    /// The layers of a port.
    ListLayer,
    /// The groups of a port.
    ListGroup,
    /// The rules of a port.
    ListRule,
    /// Rules with counters.
    GetRuleInfo,
    /// Counters of rules.
    GetRuleCounter,
    /// Counters of a port.
    GetPortCounter,
    /// Flow counts of a port.
    GetPortFlowStats,
    /// State of a port.
    GetPortState,
    /// Unified flows of a port.
    ListUnifiedFlow,
    /// NAT pools.
    ListNatPool,
    /// Ranges of NAT pools.
    ListNatRange,
    /// NAT ports that are lent.
    ListNatPortBinding,
    /// Tags.
    ListTag,
    /// Spaces; the emulated switch has none.
    ListSpace,
    /// Mappings; the emulated switch has none.
    ListMapping,
    /// Queues; the emulated switch has none of their own.
    ListQueue,
    /// Which rules a flow's first packet would hit.
    ProcessTuples,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 18] = [
        Self::ListVmswitchPort,
        Self::ListLayer,
        Self::ListGroup,
        Self::ListRule,
        Self::GetRuleInfo,
        Self::GetRuleCounter,
        Self::GetPortCounter,
        Self::GetPortFlowStats,
        Self::GetPortState,
        Self::ListUnifiedFlow,
        Self::ListNatPool,
        Self::ListNatRange,
        Self::ListNatPortBinding,
        Self::ListTag,
        Self::ListSpace,
        Self::ListMapping,
        Self::ListQueue,
        Self::ProcessTuples,
    ];

    /// How it is written, without the slash.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ListVmswitchPort => "list-vmswitch-port",
            Self::ListLayer => "list-layer",
            Self::ListGroup => "list-group",
            Self::ListRule => "list-rule",
            Self::GetRuleInfo => "get-rule-info",
            Self::GetRuleCounter => "get-rule-counter",
            Self::GetPortCounter => "get-port-counter",
            Self::GetPortFlowStats => "get-port-flow-stats",
            Self::GetPortState => "get-port-state",
            Self::ListUnifiedFlow => "list-unified-flow",
            Self::ListNatPool => "list-nat-pool",
            Self::ListNatRange => "list-nat-range",
            Self::ListNatPortBinding => "list-nat-port-binding",
            Self::ListTag => "list-tag",
            Self::ListSpace => "list-space",
            Self::ListMapping => "list-mapping",
            Self::ListQueue => "list-queue",
            Self::ProcessTuples => "process-tuples",
        }
    }
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is done.
    pub verb: Verb,
    /// `/port`.
    pub port: Option<String>,
    /// `/layer`.
    pub layer: Option<String>,
    /// `/group`.
    pub group: Option<String>,
    /// `/rule`.
    pub rule: Option<String>,
    /// `/nat-pool`.
    pub pool: Option<String>,
    /// `/format 1`.
    pub json: bool,
    /// The quoted argument of the verb.
    pub argument: Option<String>,
}

impl Command {
    /// A command without selectors.
    pub const fn new(verb: Verb) -> Self {
        Self {
            verb,
            port: None,
            layer: None,
            group: None,
            rule: None,
            pool: None,
            json: false,
            argument: None,
        }
    }

    /// Reads the words of a command line. `/port X` and `/port:X` are the same; case does not matter.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, CtrlError> {
        let mut command: Option<Verb> = None;
        let mut read = Self::new(Verb::ListVmswitchPort);
        let mut at = 0;
        while let Some(word) = words.get(at).map(AsRef::as_ref) {
            at += 1;
            let Some(name) = word.strip_prefix('/') else {
                return Err(CtrlError::Usage(format!(
                    "{word:?} is no selector and no verb; those begin with /"
                )));
            };
            let (name, mut value) = match name.split_once(':') {
                Some((name, value)) => (name.to_ascii_lowercase(), Some(value.to_owned())),
                None => (name.to_ascii_lowercase(), None),
            };
            let next = |at: &mut usize| {
                let value = words.get(*at).map(|word| word.as_ref().to_owned());
                *at += 1;
                value
            };
            let verb = Verb::ALL.into_iter().find(|verb| verb.word() == name);
            if let Some(verb) = verb {
                if let Some(other) = command.replace(verb) {
                    let text = format!("/{} and /{} are two verbs; give one", other.word(), verb.word());
                    return Err(CtrlError::Usage(text));
                }
                let follows = words.get(at).is_some_and(|word| !word.as_ref().starts_with('/'));
                if value.is_none() && follows {
                    value = next(&mut at);
                }
                read.argument = value;
                continue;
            }
            let field = match name.as_str() {
                "port" => &mut read.port,
                "layer" => &mut read.layer,
                "group" => &mut read.group,
                "rule" | "rulecounter" => &mut read.rule,
                "nat-pool" => &mut read.pool,
                "switch" | "nat-range" | "space" | "mapping" | "queue" | "tag" => &mut None,
                "format" => {
                    let value = value.or_else(|| next(&mut at));
                    read.json = value.as_deref() == Some("1");
                    continue;
                }
                _ => {
                    let text = format!("/{name} is no selector and no verb of this tool");
                    return Err(CtrlError::Usage(text));
                }
            };
            let value = value.or_else(|| next(&mut at));
            let Some(value) = value.filter(|value| !value.starts_with('/')) else {
                return Err(CtrlError::Usage(format!("/{name} needs a value")));
            };
            *field = Some(value);
        }
        match command {
            Some(verb) => Ok(Self { verb, ..read }),
            None => {
                Err(CtrlError::Usage("no verb was given; /list-vmswitch-port is a good first one".to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_and_verb_come_in_any_order() {
        let wanted = Command {
            port: Some("P".to_owned()),
            layer: Some("L".to_owned()),
            ..Command::new(Verb::ListRule)
        };
        for line in
            ["/port P /layer L /list-rule", "/list-rule /layer L /port P", "/port:P /LIST-RULE /Layer:L"]
        {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(Command::parse(&words), Ok(wanted.clone()), "{line}");
        }
        let words = ["/list-rule", "/format", "1", "/port", "P"];
        assert!(Command::parse(&words).unwrap().json);
        let words = ["/port", "P", "/process-tuples", "6 10.0.0.1 1 10.0.0.2 2 2 1"];
        assert_eq!(Command::parse(&words).unwrap().argument.as_deref(), Some("6 10.0.0.1 1 10.0.0.2 2 2 1"));
    }

    #[test]
    fn wrong_lines_say_what_is_wrong() {
        for (line, part) in [
            ("", "no verb"),
            ("/port", "/port needs a value"),
            ("/port /list-rule", "/port needs a value"),
            ("/list-rule /list-layer", "two verbs"),
            ("/lst-rule", "/lst-rule is no selector"),
            ("list-rule", "begin with /"),
        ] {
            let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
            let error = Command::parse(&words).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
