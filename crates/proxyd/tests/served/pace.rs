//! How soon one pass follows another.

use std::fmt::Write as _;
use std::time::Duration;

use hcn::{HcnExt as _, LoadBalancer, Query};
use hns::faults::{Fault, FaultRule, Latency};
use proxyd::Input;
use proxyd::http::Addresses;

use crate::rig::{Rig, make_network};

const SERVICES: usize = 40;

/// The least period would never be over: with it between passes that ran out of time, this test would not end.
#[test]
fn a_pass_that_ran_out_of_time_goes_on_at_once() {
    let rig =
        Rig::start_paced(Addresses::default(), Some(Duration::from_millis(200)), Duration::from_hours(1_000));
    make_network(&rig.hns);
    let mut slow = FaultRule::new(Fault::Slow).actor("proxy");
    slow.latency = Some(Latency::Fixed(Duration::from_millis(20)));
    rig.hns.faults().add(slow).expect("the rule can be");
    let mut text = String::from(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.11}]}\n",
    );
    for number in 0..SERVICES {
        write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{number}}}\nspec: {{clusterIP: 10.60.0.{number}, ports: [{{port: 80}}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s{number}-1, labels: {{kubernetes.io/service-name: s{number}}}}}\naddressType: IPv4\nports: [{{port: 80}}]\nendpoints: [{{addresses: [10.50.2.{number}], nodeName: n2}}]\n"
        )
        .expect("text grows");
    }
    rig.apply(&text);
    rig.send(Input::Synced);
    let served = || {
        let all = rig.hns.actor("observer").list::<LoadBalancer>(&Query::all());
        all.expect("load balancers can be listed").len()
    };
    let mut passes = 0;
    while served() < SERVICES {
        rig.next_pass();
        passes += 1;
    }
    // They may have been quicker than this thread.
    passes += rig.passes_unheard();
    assert!(passes > 3, "{passes} passes: none of them ran out of time");
    rig.end();
}
