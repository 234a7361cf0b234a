//! The list of cases. Each module holds the cases of one part of the source.

use crate::Case;

mod balancers;
mod endpoints;
mod errors;
mod namespaces;
mod ncproxy;
mod neighbours;
mod networks;
mod routes;
mod support;
mod v1api;
mod v1schema;

/// Every case, in the order in which they run: those of hcsshim/hcn first.
pub fn cases() -> &'static [Case] {
    const COUNT: usize = networks::CASES.len()
        + endpoints::CASES.len()
        + namespaces::CASES.len()
        + balancers::CASES.len()
        + routes::CASES.len()
        + errors::CASES.len()
        + support::CASES.len()
        + v1schema::CASES.len()
        + v1api::CASES.len()
        + ncproxy::CASES.len()
        + neighbours::CASES.len();
    const ALL: [Case; COUNT] = {
        let parts = [
            networks::CASES,
            endpoints::CASES,
            namespaces::CASES,
            balancers::CASES,
            routes::CASES,
            errors::CASES,
            support::CASES,
            v1schema::CASES,
            v1api::CASES,
            ncproxy::CASES,
            neighbours::CASES,
        ];
        let mut all = [networks::CASES[0]; COUNT];
        let (mut part, mut at) = (0, 0);
        while part < parts.len() {
            let mut row = 0;
            while row < parts[part].len() {
                all[at] = parts[part][row];
                row += 1;
                at += 1;
            }
            part += 1;
        }
        all
    };
    &ALL
}
