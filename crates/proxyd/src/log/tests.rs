//! Time lines: what is degraded when, and which lines come of it.

use hcn::Kind;
use proxy::meter::{Figures, Operation};

use super::*;

fn degraded(reason: Reason, effect: Effect) -> Degraded {
    Degraded { reason, message: format!("{reason} it is"), seconds: None, effect }
}

fn verdict(reasons: &[(Reason, Effect)]) -> Verdict {
    Verdict {
        node_eligible: true,
        degraded: reasons.iter().map(|&(reason, effect)| degraded(reason, effect)).collect(),
        ..Verdict::default()
    }
}

fn at(seconds: u64) -> Seen {
    Seen { now: Duration::from_secs(seconds), ..Seen::default() }
}

/// A line in short.
fn short(line: &Line) -> String {
    match line {
        Line::Degraded { what, again } => {
            format!("{} {:?}{}", what.reason, what.effect, if *again { " again" } else { "" })
        }
        Line::Over { reason, lasted } => format!("{reason} over after {}", lasted.as_secs()),
        Line::HnsSlow { calls, longest } => format!("{calls} slow, longest {}", longest.as_secs()),
        Line::Unfinished { passes } => format!("{passes} unfinished"),
        Line::NodeGone => "gone".to_owned(),
        Line::NodeBack => "back".to_owned(),
    }
}

fn look(log: &mut Log, seconds: u64, reasons: &[(Reason, Effect)]) -> Vec<String> {
    log.look(&at(seconds), &verdict(reasons), None).iter().map(short).collect()
}

#[test]
fn a_hang_is_said_when_it_begins_while_it_lasts_and_when_it_is_over() {
    let mut log = Log::default();
    let hang = [(Reason::HnsHangs, Effect::Unhealthy)];
    assert!(look(&mut log, 0, &[]).is_empty());
    assert_eq!(look(&mut log, 30, &hang), ["HnsHangs Unhealthy"]);
    let mut later = Vec::new();
    for second in 31..=1_300 {
        later.extend(look(&mut log, second, &hang));
    }
    assert_eq!(later, ["HnsHangs Unhealthy again", "HnsHangs Unhealthy again"]);
    assert!(look(&mut log, 1_305, &[]).is_empty(), "it may come again at once");
    assert_eq!(look(&mut log, 1_310, &[]), ["HnsHangs over after 1270"]);
    assert!(look(&mut log, 1_400, &[]).is_empty());
    assert_eq!(look(&mut log, 1_401, &hang), ["HnsHangs Unhealthy"]);
}

#[test]
fn what_comes_and_goes_is_said_once() {
    let mut log = Log::default();
    let mut lines = Vec::new();
    for second in 0..300 {
        let reasons: &[_] = if second % 5 == 0 { &[(Reason::Unserved, Effect::Shown)] } else { &[] };
        lines.extend(look(&mut log, second, reasons));
    }
    assert_eq!(lines, ["Unserved Shown"]);
}

#[test]
fn a_start_and_more_of_one_reason_are_no_lines_of_their_own() {
    let mut log = Log::default();
    let start = [(Reason::Syncing, Effect::Unhealthy), (Reason::FirstPass, Effect::Unhealthy)];
    assert!(look(&mut log, 0, &start).is_empty());
    let two = [
        (Reason::Stale, Effect::Unhealthy),
        (Reason::Stale, Effect::Shown),
        (Reason::ApiOutage, Effect::Shown),
    ];
    assert_eq!(look(&mut log, 1, &two), ["Stale Unhealthy", "ApiOutage Shown"]);
}

#[test]
fn the_node_is_gone_only_after_it_was_there() {
    let mut log = Log::default();
    let mut node = |second, is_there| {
        let verdict = Verdict { node_eligible: is_there, ..Verdict::default() };
        log.look(&at(second), &verdict, None).iter().map(short).collect::<Vec<_>>()
    };
    assert!(node(0, false).is_empty());
    assert!(node(1, true).is_empty());
    assert_eq!(node(2, false), ["gone"]);
    assert!(node(3, false).is_empty());
    assert_eq!(node(4, true), ["back"]);
}

#[test]
fn slow_calls_and_unfinished_passes_are_counted_and_said_once_a_minute() {
    let mut log = Log::default();
    let mut meters = Meters::default();
    let mut line = |second, took: &[u64], unfinished| {
        for &milliseconds in took {
            let figures: &mut Figures =
                meters.figures.entry((Operation::Create, Some(Kind::Endpoint))).or_default();
            figures.calls += 1;
            figures.longest = figures.longest.max(Duration::from_millis(milliseconds));
            if let Some(class) = LATENCY_BOUNDS.iter().position(|&bound| milliseconds <= bound) {
                figures.classes[class] += 1;
            }
        }
        let mut seen = at(second);
        seen.facts.passes.unfinished = unfinished;
        log.look(&seen, &verdict(&[]), Some(&meters)).iter().map(short).collect::<Vec<_>>()
    };
    assert!(line(0, &[5, 1_000], 0).is_empty(), "a second is not too long");
    assert_eq!(line(1, &[1_001], 0), ["1 slow, longest 1"]);
    assert!(line(2, &[5_000, 3_000_000], 1).contains(&"1 unfinished".to_owned()));
    assert!(line(60, &[], 4).is_empty());
    assert_eq!(line(61, &[], 4), ["2 slow, longest 3000"]);
    assert_eq!(line(62, &[], 4), ["3 unfinished"]);
    assert!(line(300, &[7], 4).is_empty());
}
