//! Public reports about load balancing and networking of Windows nodes, as packets: each row of
//! `testdata/reports/*.yaml` runs whole exchanges through an emulated cluster, on each kind of network, with DSR and
//! without. docs/reports.md lists the reports and tells how to write a row.

mod acts;
mod docs;
mod exchange;
mod row;
mod run;

use libtest_mimic::{Arguments, Trial};

use row::Setting;

fn main() {
    let arguments = Arguments::from_args();
    let rows = row::load();
    let checked = rows.clone();
    let mut trials = vec![Trial::test("docs", move || docs::check(&checked).map_err(Into::into))];
    for row in rows {
        for setting in Setting::ALL.into_iter().filter(|setting| setting.has(&row.only)) {
            let row = row.clone();
            let name = format!("{}::{setting}", row.id);
            trials.push(Trial::test(name, move || run::run(&row, setting).map_err(Into::into)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
