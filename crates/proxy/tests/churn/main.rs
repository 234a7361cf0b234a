//! Random churn of Services, slices, pods, HNS and the proxy, with random faults, and what must hold all the same.
//!
//! A walk is a seed: every choice comes from it, so a failure is repeated by
//! `TRANSOM_CHURN_SEED=<seed> cargo test -p proxy --test churn`. The seeds are printed. `TRANSOM_CHURN_STEPS` sets
//! the length of each walk.

#![expect(clippy::print_stdout, reason = "a walk says its seed")]

#[path = "../world/mod.rs"]
mod world;

mod step;
mod truth;

use hcn::time::{Entropy as _, SeededEntropy};
use hns::Profile;
use node::NetworkKind;
use proxy::Config;
use services::IpFamily;
use step::Walk;
use world::Setup;

/// Steps of each walk in CI; with 8 walks of 4 seeds each that is 32,000.
const STEPS: usize = 1_000;
const SEEDS: u64 = 4;

fn walk(profile: Profile, network: NetworkKind, dual_stack: bool) {
    let steps = std::env::var("TRANSOM_CHURN_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let given: Option<u64> = std::env::var("TRANSOM_CHURN_SEED").ok().and_then(|text| text.parse().ok());
    let seeds: Vec<u64> = given.map_or_else(|| (1..=SEEDS).collect(), |seed| vec![seed]);
    for seed in seeds {
        println!("churn: {profile} {network} dual stack {dual_stack}: seed {seed}, {steps} steps");
        let entropy = SeededEntropy::new(seed.wrapping_mul(0x1000_0001));
        let setup = Setup {
            profile,
            network,
            families: if dual_stack { vec![IpFamily::V4, IpFamily::V6] } else { vec![IpFamily::V4] },
            config: Config {
                network_name: "net".to_owned(),
                enable_dsr: entropy.below(2) == 0,
                forward_health_check_vip: entropy.below(2) == 0,
                check_slice: 1 << 20,
                // Half of the walks have passes that end before all is tried, when calls take long.
                pass_time: (entropy.below(2) == 0).then_some(std::time::Duration::from_millis(200)),
                parallel_calls: if entropy.below(2) == 0 { 1 } else { 4 },
                ..Config::default()
            },
            locals: vec!["L1".to_owned(), "L2".to_owned()],
            seed,
            ..Setup::default()
        };
        let mut walk = Walk::new(setup, entropy);
        for number in 0..steps {
            walk.step(number);
        }
        walk.quiet("at the end");
    }
}

macro_rules! walks {
    ($($name:ident: $profile:ident $network:ident $dual:literal;)*) => {
        $(#[test]
        fn $name() {
            walk(Profile::$profile, NetworkKind::$network, $dual);
        })*
    };
}

walks! {
    bridge_on_server_2019: Ws2019 L2Bridge false;
    overlay_on_server_2019: Ws2019 Overlay false;
    bridge_on_server_2022: Ws2022 L2Bridge true;
    overlay_on_server_2022: Ws2022 Overlay false;
    bridge_on_server_2025: Ws2025 L2Bridge true;
    overlay_on_server_2025: Ws2025 Overlay false;
    bridge_on_the_newest: Newest L2Bridge true;
    overlay_on_the_newest: Newest Overlay false;
}
