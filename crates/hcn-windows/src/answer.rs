//! What a call answers: an HRESULT, an error record, a payload. Pure: text in, value or error out. It must not know which
//! functions there are.

use hcn::error::ErrorRecord;
use hcn::json::Members;
use hcn::{Error, Guid, HResult, Result};

/// Whether a call succeeded, from its HRESULT and its error record.
///
/// A success with an error record is a failure, as in hcsshim. Its code is the record's, where that says one.
pub(crate) fn check(export: &str, result: HResult, record: Option<&str>) -> Result<()> {
    let record = record.filter(|text| !text.is_empty());
    if !result.is_failure() && record.is_none() {
        return Ok(());
    }
    let read = record.map(|text| serde_json::from_str::<ErrorRecord>(text).map_err(|_| text));
    let recorded = match &read {
        Some(Ok(record)) => Some(HResult(record.error_code)).filter(|code| code.is_failure()),
        _ => None,
    };
    let code = if result.is_failure() { result } else { recorded.unwrap_or(HResult::E_FAIL) };
    let detail = match read {
        None => None,
        Some(Ok(record)) => detail_of(&record, code),
        Some(Err(text)) => Some(format!("the error record is {:?}", shorten(text))),
    };
    Err(Error { code, call: Some(export.to_owned().into()), detail })
}

/// What a record says beside its code.
fn detail_of(record: &ErrorRecord, code: HResult) -> Option<String> {
    let text = record.error.trim();
    let is_the_message = text.trim_end_matches('.') == code.message();
    let text = Some(text.to_owned()).filter(|text| !text.is_empty() && !is_the_message);
    let recorded = HResult(record.error_code);
    let other = (recorded != code && recorded.is_failure())
        .then(|| format!("(the error record says {recorded} {})", recorded.name()));
    let parts: Vec<String> = text.into_iter().chain(other).collect();
    Some(parts.join(" ")).filter(|detail| !detail.is_empty())
}

/// A payload, which a call that succeeded must have handed out.
pub(crate) fn payload(export: &str, payload: Option<String>) -> Result<String> {
    payload.ok_or_else(|| {
        Error::detailed(HResult::E_POINTER, "the call succeeded and handed out no answer")
            .in_call(export.to_owned())
    })
}

/// The ids of an enumeration.
pub(crate) fn ids(export: &str, text: &str) -> Result<Vec<Guid>> {
    serde_json::from_str(text).map_err(|error| {
        let what = format!("the answer is no list of ids: {error}: {:?}", shorten(text));
        Error::detailed(HResult::INVALID_JSON, what).in_call(export.to_owned())
    })
}

/// The id in an object's properties.
pub(crate) fn id_of(export: &str, text: &str) -> Result<Guid> {
    let wrong = |what: String| {
        Error::detailed(HResult::INVALID_JSON, format!("{what}: {:?}", shorten(text)))
            .in_call(export.to_owned())
    };
    let Members(members) = serde_json::from_str(text)
        .map_err(|error| wrong(format!("the answer is no JSON object: {error}")))?;
    let (_, raw) = members
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("ID"))
        .ok_or_else(|| wrong("the answer has no ID".to_owned()))?;
    serde_json::from_str(raw.get()).map_err(|error| wrong(format!("the answer's ID: {error}")))
}

/// The beginning of a text, for messages.
fn shorten(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(code: u32, text: &str) -> String {
        ErrorRecord { success: false, error: text.to_owned(), error_code: code }.to_json()
    }

    /// A code and a detail; none: success.
    type Wanted<'a> = Option<(HResult, Option<&'a str>)>;

    #[test]
    fn results_and_records_become_errors() {
        let not_found = HResult::ELEMENT_NOT_FOUND;
        let own = ErrorRecord::of(not_found).to_json();
        let other = record(0x803B_0001, "The network was not found. ");
        let rows: [(&str, HResult, Option<&str>, Wanted<'_>); 12] = [
            ("success", HResult(0), None, None),
            ("S_FALSE", HResult(1), None, None),
            ("an empty record is none", HResult(0), Some(""), None),
            ("failure without a record", not_found, None, Some((not_found, None))),
            ("the code's own message is not said twice", not_found, Some(&own), Some((not_found, None))),
            (
                "a record that says more",
                not_found,
                Some(&record(not_found.0, "Element not found in the store. ")),
                Some((not_found, Some("Element not found in the store."))),
            ),
            (
                "two codes",
                not_found,
                Some(&other),
                Some((
                    not_found,
                    Some(
                        "The network was not found. (the error record says 0x803B0001 HCN_E_NETWORK_NOT_FOUND)",
                    ),
                )),
            ),
            (
                "success with a record is a failure with its code",
                HResult(0),
                Some(&other),
                Some((HResult::NETWORK_NOT_FOUND, None)),
            ),
            (
                "success with a record without a code",
                HResult(0),
                Some(r#"{"Success":false,"Error":"odd"}"#),
                Some((HResult::E_FAIL, Some("odd"))),
            ),
            (
                "success with a record that is no JSON",
                HResult(0),
                Some("{oops"),
                Some((HResult::E_FAIL, Some("the error record is \"{oops\""))),
            ),
            (
                "failure with a record that is no JSON",
                not_found,
                Some("\u{FFFD}"),
                Some((not_found, Some("the error record is \"\u{FFFD}\""))),
            ),
            (
                "a record's code that is none",
                not_found,
                Some(&record(0, "Element not found. ")),
                Some((not_found, None)),
            ),
        ];
        for (name, result, record, wanted) in rows {
            let wanted = wanted.map_or(Ok(()), |(code, detail)| {
                let detail = detail.map(str::to_owned);
                Err(Error { code, call: Some("HcnOpenNetwork".into()), detail })
            });
            assert_eq!(check("HcnOpenNetwork", result, record), wanted, "{name}");
        }
    }

    #[test]
    fn ids_are_read_and_nothing_else() {
        let id = "0badcafe-0000-4000-8000-00000000000a";
        assert_eq!(ids("X", &format!("[\"{id}\"]")).unwrap(), [id.parse().unwrap()]);
        assert_eq!(ids("X", " [ ] ").unwrap(), []);
        for bad in ["", "{}", "null", "[1]", "[\"x\"]", "[", &"[".repeat(100_000)] {
            let error = ids("X", bad).unwrap_err();
            assert_eq!((error.code, error.call.as_deref()), (HResult::INVALID_JSON, Some("X")), "{bad:.20}");
            assert!(error.to_string().len() < 1000, "{bad:.20}");
        }
        for good in [format!(r#"{{"ID":"{id}"}}"#), format!(r#"{{"Name":"a","Id":"{}"}}"#, id.to_uppercase())]
        {
            assert_eq!(id_of("X", &good).unwrap(), id.parse().unwrap(), "{good}");
        }
        for bad in ["", "[]", "{}", r#"{"ID":null}"#, r#"{"ID":"1"}"#] {
            assert_eq!(id_of("X", bad).unwrap_err().code, HResult::INVALID_JSON, "{bad}");
        }
    }
}
