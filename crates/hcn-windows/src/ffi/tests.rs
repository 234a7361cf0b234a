//! Builds that lack exports: what keeps them from loading, and what the calls that need the rest say.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use hcn::api::V1Method;
use hcn::{Error, Guid, HResult, Hcn, Kind, Query, Result};
use hcn_abi::names::{self, Family};
use hcn_fake_dll::Fake;

use super::library::Symbols;
use super::{Exports, Loaded, Place};
use crate::{Libraries, LoadError, Native, Options, Part};

/// A library without some of its exports.
struct Without<'a>(&'a Loaded, &'a [&'a str]);

// SAFETY: what is found is found by another that promises the same.
unsafe impl Symbols for Without<'_> {
    fn address(&self, part: Part, export: &str) -> Option<NonNull<c_void>> {
        if self.1.contains(&export) { None } else { self.0.address(part, export) }
    }

    fn files(&self) -> &Libraries {
        self.0.files()
    }
}

fn files() -> Libraries {
    Libraries::one_file(Fake::path())
}

fn loaded() -> Loaded {
    Loaded::open(&files(), Place::Path).unwrap()
}

fn without(absent: &[&str]) -> std::result::Result<Native, LoadError> {
    let exports = Exports::bind(&Without(&loaded(), absent))?;
    Ok(Native::over(exports, files(), Options::default()))
}

#[test]
fn the_shared_object_exports_all_names() {
    let loaded = loaded();
    for export in names::computenetwork() {
        assert!(loaded.address(Part::ComputeNetwork, &export).is_some(), "{export}");
    }
    assert!(loaded.address(Part::VmCompute, names::HNS_CALL).is_some());
    assert!(loaded.address(Part::Memory, names::CO_TASK_MEM_FREE).is_some());
    assert!(loaded.address(Part::Memory, "HcnNothing").is_none());
}

#[test]
fn nothing_works_without_networks_endpoints_balancers_and_the_v1_call() {
    let needed = [Kind::Network, Kind::Endpoint, Kind::LoadBalancer]
        .into_iter()
        .flat_map(|kind| Family::ALL.map(|family| family.export(kind)))
        .chain([names::HNS_CALL.to_owned(), names::CO_TASK_MEM_FREE.to_owned()]);
    let mut count = 0;
    for export in needed {
        let error = without(&[&export]).map(drop).unwrap_err();
        let LoadError::Export { file, export: named } = &error else { panic!("{export}: {error:?}") };
        assert_eq!((named, file), (&export, &Fake::path()));
        let text = error.to_string();
        assert!(text.contains(&format!("does not export {export}: ")) && text.contains("Windows"), "{text}");
        count += 1;
    }
    assert_eq!(count, 23);
}

/// A use of the trait that fails for want of an export.
type Act = fn(&Native) -> Result<()>;

const ID: Guid = Guid::from_u128(1);

#[test]
fn what_else_is_missing_the_call_that_needs_it_says() {
    let rows: [(&str, Act); 11] = [
        ("HcnEnumerateSdnRoutes", |hns| hns.enumerate(Kind::SdnRoute, &Query::all()).map(drop)),
        ("HcnCreateSdnRoute", |hns| hns.create(Kind::SdnRoute, None, ID, "{}").map(drop)),
        ("HcnOpenSdnRoute", |hns| hns.query(Kind::SdnRoute, ID, &Query::all()).map(drop)),
        ("HcnCloseSdnRoute", |hns| hns.query(Kind::SdnRoute, ID, &Query::all()).map(drop)),
        ("HcnCloseNamespace", |hns| hns.create(Kind::Namespace, None, ID, "{}").map(drop)),
        ("HcnModifyNamespace", |hns| {
            let id = hns.create(Kind::Namespace, None, Guid::NIL, r#"{"SchemaVersion":{"Major":2}}"#)?;
            hns.modify(Kind::Namespace, id, "{}")
        }),
        ("HcnQueryNamespaceProperties", |hns| {
            hns.create(Kind::Namespace, None, Guid::NIL, r#"{"SchemaVersion":{"Major":2}}"#).map(drop)
        }),
        ("HcnDeleteNamespace", |hns| hns.delete(Kind::Namespace, ID)),
        ("HcnEnumerateNamespaces", |hns| hns.enumerate(Kind::Namespace, &Query::all()).map(drop)),
        ("HcnRegisterServiceCallback", |hns| hns.subscribe(Arc::new(|_| {})).map(drop)),
        ("HcnUnregisterServiceCallback", |hns| hns.subscribe(Arc::new(|_| {})).map(drop)),
    ];
    for (export, act) in rows {
        let fake = Fake::fresh("newest");
        let hns = without(&[export]).unwrap_or_else(|error| panic!("{export}: {error}"));
        let Err(Error { code, call, detail }) = act(&hns) else { panic!("{export}: no error") };
        assert_eq!((code, call.as_deref()), (HResult::PROC_NOT_FOUND, Some(export)));
        let detail = detail.unwrap_or_default();
        assert!(
            detail.contains(&format!("does not export {export}: ")) && detail.contains("have it"),
            "{detail}"
        );
        // The rest works.
        hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap();
        hns.call_v1(V1Method::Get, "/networks/", "").unwrap();
        drop(hns);
        assert_eq!(fake.counts().faults(), None, "{export}");
    }
}

#[test]
fn a_build_with_the_needed_exports_alone_loads() {
    let optional: Vec<String> = [Kind::Namespace, Kind::SdnRoute]
        .into_iter()
        .flat_map(|kind| Family::ALL.map(|family| family.export(kind)))
        .chain(names::OTHERS.map(str::to_owned))
        .collect();
    let absent: Vec<&str> = optional.iter().map(String::as_str).collect();
    let _fake = Fake::fresh("newest");
    without(&absent).unwrap().enumerate(Kind::Network, &Query::all()).unwrap();
}
