//! `HcnQueryEndpointStats` and `HcnQueryEndpointAddresses`. Nobody outside has said how their documents look (docs/fidelity.md):
//! statistics are those of the v1 API, addresses the endpoint's `IpConfigurations` as it shows them.

use hcn::api::V1Method;
use hcn::{HcnExt as _, Kind, Query};
use hcn_abi::{HRESULT, Handle, PCWSTR, PWSTR};

use crate::arguments::text;
use crate::dll::Dll;
use crate::edge::{Text, call};

#[expect(unsafe_code, reason = "takes pointers from a program")]
impl Dll {
    /// `HcnQueryEndpointStats`. The query is read and has no effect.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn endpoint_stats(
        &self,
        endpoint: Handle,
        query: PCWSTR,
        stats: *mut PWSTR,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Text(stats), || {
            // SAFETY: the caller's promise.
            unsafe { text(query) }?;
            let id = self.object(Kind::Endpoint, endpoint)?;
            let path = format!("/endpointstats/{id}");
            let stats = self.client()?.call(|remote| remote.output_v1(V1Method::Get, &path, ""))?;
            Ok(stats.get().to_owned())
        })
    }

    /// `HcnQueryEndpointAddresses`. The query is read and has no effect.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn endpoint_addresses(
        &self,
        endpoint: Handle,
        query: PCWSTR,
        addresses: *mut PWSTR,
        record: *mut PWSTR,
    ) -> HRESULT {
        /// An endpoint's only member that matters here.
        #[derive(serde::Deserialize)]
        struct Endpoint {
            #[serde(rename = "IpConfigurations", default)]
            configurations: Option<Box<serde_json::value::RawValue>>,
        }
        call(record, Text(addresses), || {
            // SAFETY: the caller's promise.
            unsafe { text(query) }?;
            let id = self.object(Kind::Endpoint, endpoint)?;
            let all = Query::all().to_json();
            let document = self.client()?.call(|remote| remote.query_text(Kind::Endpoint, id, &all))?;
            let endpoint: Endpoint = serde_json::from_str(&document)?;
            Ok(endpoint.configurations.map_or_else(|| "[]".to_owned(), |raw| raw.get().to_owned()))
        })
    }
}
