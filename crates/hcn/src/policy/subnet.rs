//! Subnet policies. Microsoft's sample page writes `IsolationId` beside `Type`, or `Data` for `Settings`; both are
//! read.

pub use super::common::Isolation;
pub use super::typed::{PolicyError, TypeName};
use super::typed::{policies, read};
use crate::json::RawJson;
use crate::policy::Policy;

policies! {
    /// A policy on a subnet, read.
    pub enum SubnetPolicy of "subnet" {
        /// The VLAN the subnet is in.
        Vlan(Isolation) = "VLAN" # 0;
        /// The virtual subnet id of an overlay.
        Vsid(Isolation) = "VSID" # 1;
    }
}
