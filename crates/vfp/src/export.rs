//! A switch's whole policy as changes: applied to a new switch, they make one that treats packets alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Change, PoolKey, PoolSpec};
use crate::switch::Switch;

impl Switch {
    /// Everything that was programmed, as changes for an empty switch. Flows, bindings and counters are not in it.
    pub fn policy(&self) -> Vec<Change> {
        let mut changes = vec![Change::Settings(self.settings().clone())];
        changes.extend(self.segments().into_iter().map(Change::PutSegment));
        changes.extend(self.tags().into_iter().map(Change::PutTag));
        changes.extend(self.neighbors().into_iter().map(Change::PutNeighbor));
        let ports = self.ports();
        changes.extend(ports.iter().map(|port| Change::PutPort(port.spec.clone())));
        changes.extend(self.pools().into_iter().map(|pool| {
            Change::PutPool(PoolSpec {
                key: PoolKey(pool.key.into()),
                name: pool.name.into(),
                protocol: pool.protocol,
                owner: pool.owner,
                ranges: pool.ranges,
            })
        }));
        let mut groups = BTreeSet::new();
        for port in &ports {
            for layer in self.layers(port.spec.name).unwrap_or_default() {
                let id = Arc::clone(&layer.layer.id);
                changes.push(Change::PutLayer { port: port.spec.name, layer: layer.layer });
                for group in layer.groups {
                    let key = group.group.key.clone();
                    if groups.insert(key.clone()) {
                        changes.push(Change::PutGroup(group.group));
                    }
                    changes.push(Change::Attach { port: port.spec.name, layer: Arc::clone(&id), group: key });
                }
            }
        }
        changes
    }
}
