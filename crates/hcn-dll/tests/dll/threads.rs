//! Many threads at once.

use std::sync::atomic::{AtomicU32, Ordering};

use hcn::{Guid, HResult, Kind};

use crate::world::{V2, World, nowhere};

const THREADS: u128 = 8;
const ROUNDS: u128 = 60;

#[test]
fn eight_threads_do_not_get_in_each_others_way() {
    let world = World::new();
    let network = world.network("n");
    let id = world.id(Kind::Network, network);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let own = Guid::from_u128(thread << 64 | round | 1 << 100);
                    let namespace = world.create(Kind::Namespace, own, "{}").unwrap();
                    let opened = world.open(Kind::Network, id).unwrap();
                    assert_eq!(world.id(Kind::Network, opened), id);
                    assert_eq!(world.id(Kind::Namespace, namespace), own);
                    assert!(world.ids(Kind::Namespace).contains(&own));
                    world.delete(Kind::Namespace, own).unwrap();
                    assert_eq!(
                        world.open(Kind::Namespace, own).unwrap_err().code,
                        HResult::ELEMENT_NOT_FOUND
                    );
                    assert_eq!(world.close(Kind::Network, opened), HResult(0));
                    assert_eq!(world.close(Kind::Namespace, namespace), HResult(0));
                }
            });
        }
    });
}

#[test]
fn threads_live_through_restarts() {
    let world = World::new();
    let network = world.network("n").addr();
    let answered = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    // So many answers from all together, so that there are some after each restart.
                    while answered.load(Ordering::Relaxed) < 2_000 {
                        match world.query(Kind::Network, nowhere(network), Some(V2)) {
                            Ok(_) => {
                                answered.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(failed) => assert!(
                                matches!(
                                    failed.code,
                                    HResult::RPC_CALL_FAILED | HResult::RPC_SERVER_UNAVAILABLE
                                ),
                                "{failed:?}"
                            ),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            world.stop();
            world.start();
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}
