//! What a lab's Linux nodes do besides forwarding: Services and masquerading, by the kernel's nftables.

use std::process::Command;

use node::stack::{MasqueradeRule, ServiceTable};

use crate::build::{BuildError, feed};
use crate::netns::Netns;
use crate::nft;

/// Makes a node serve a table and masquerade by a rule ([`LinuxPlan`](crate::plan::LinuxPlan) has it), in place of
/// those of an earlier call. Connections go on.
pub fn serve(namespace: &str, table: &ServiceTable, masquerade: &MasqueradeRule) -> Result<(), BuildError> {
    let script = nft::script(table, masquerade);
    let failed = |error: String| BuildError::Script {
        program: "nft",
        namespace: namespace.to_owned(),
        line: format!("table inet {}, {} frontends", nft::TABLE, table.rules.len()),
        error,
    };
    match Netns::open(namespace)?.run(|| feed(Command::new("nft").args(["-f", "-"]), &script))? {
        Ok(Ok(())) => Ok(()),
        Ok(Err(said)) => Err(failed(said)),
        Err(error) => Err(failed(format!("it cannot be run: {error}"))),
    }
}
