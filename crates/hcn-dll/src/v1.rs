//! `HNSCall`: method, path and body cross as they are, and so does the server's answer, be it an envelope that says
//! `"Success":false` or a failing `HRESULT`.

use hcn::api::V1Method;
use hcn::{Error, HResult, Hcn as _};
use hcn_abi::{HRESULT, PCWSTR, PWSTR};

use crate::arguments::{needed_text, text};
use crate::dll::Dll;
use crate::edge::{Text, plain_call};

#[expect(unsafe_code, reason = "takes pointers from a program")]
impl Dll {
    /// `HNSCall`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn hns_call(
        &self,
        method: PCWSTR,
        path: PCWSTR,
        request: PCWSTR,
        response: *mut PWSTR,
    ) -> HRESULT {
        plain_call(Text(response), || {
            // SAFETY: the caller's promise.
            let (method, path, request) =
                unsafe { (needed_text(method)?, needed_text(path)?, text(request)?.unwrap_or_default()) };
            let method = V1Method::parse(&method).ok_or_else(|| {
                let why = format!("v1 has no method {method:?}; methods are GET, POST, DELETE");
                Error::detailed(HResult::INVALID_PARAMETER, why)
            })?;
            self.client()?.call(|remote| remote.call_v1(method, &path, &request))
        })
    }
}
