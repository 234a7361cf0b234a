//! Callbacks: who is told what, and that nobody is told anything after the end.

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};

use hcn::{Guid, HResult, Kind};
use hcn_abi::{HRESULT, Handle, PCWSTR};
use hcn_dll::Dll;
use parking_lot::Mutex;

use crate::world::{World, code, nowhere};

/// What one callback was told, in order.
type Told = (u32, String);

/// What stands behind a callback's context.
struct Listener {
    sender: Mutex<Sender<Told>>,
    /// What a callback does once it has said what it was told.
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Listener {
    fn new() -> (Box<Self>, Receiver<Told>) {
        let (sender, told) = channel();
        (Box::new(Self { sender: Mutex::new(sender), then: Mutex::default() }), told)
    }

    fn context(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}

unsafe extern "system" fn tell(kind: u32, context: *mut c_void, status: HRESULT, data: PCWSTR) {
    let listener = unsafe { &*context.cast::<Listener>() };
    assert_eq!(status, 0);
    let data = unsafe { hcn_abi::wide::decode(data, 1 << 20) }.expect("it ends");
    // The test may be over.
    let _ = listener.sender.lock().send((kind, data));
    let then = listener.then.lock().take();
    if let Some(then) = then {
        then();
    }
}

fn on_service(world: &World, listener: &Listener) -> Result<Handle, HResult> {
    let mut handle = nowhere(0x10);
    let answer =
        code(unsafe { world.dll.register_service_callback(Some(tell), listener.context(), &raw mut handle) });
    assert_eq!(handle.is_null(), answer.is_failure());
    if answer.is_failure() { Err(answer) } else { Ok(handle) }
}

fn on_network(world: &World, network: Handle, listener: &Listener) -> Handle {
    let mut handle = std::ptr::null_mut();
    let answer = unsafe {
        world.dll.register_network_callback(network, Some(tell), listener.context(), &raw mut handle)
    };
    assert_eq!(answer, 0);
    handle
}

fn endpoint(world: &World, network: Handle) -> Guid {
    let made =
        world.create_endpoint(network, Guid::NIL, r#"{"Name":"e","SchemaVersion":{"Major":2,"Minor":0}}"#);
    world.id(Kind::Endpoint, made.unwrap())
}

fn attach(world: &World, namespace: Handle, endpoint: Guid, what: &str) {
    let request = format!(
        r#"{{"ResourceType":"Endpoint","RequestType":"{what}","Settings":{{"EndpointId":"{endpoint}"}}}}"#
    );
    world.modify(Kind::Namespace, namespace, &request).unwrap();
}

#[test]
fn the_service_tells_of_networks_and_namespaces() {
    let world = World::new();
    let ((one, told), (other, told_too)) = (Listener::new(), Listener::new());
    let handle = on_service(&world, &one).unwrap();
    let second = on_service(&world, &other).unwrap();
    let network = world.network("n");
    let id = world.id(Kind::Network, network);
    for told in [&told, &told_too] {
        assert_eq!(told.recv().unwrap().0, 1);
        let (kind, data) = told.recv().unwrap();
        assert!(kind == 2 && data.to_lowercase().contains(&id.to_string()), "{kind} {data}");
    }
    assert_eq!(code(world.dll.unregister_network_callback(handle)), HResult::INVALID_HANDLE);
    assert_eq!(world.dll.unregister_service_callback(handle), 0);
    assert_eq!(code(world.dll.unregister_service_callback(handle)), HResult::INVALID_HANDLE);
    world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
    assert_eq!(told_too.recv().unwrap().0, 5);
    assert_eq!(world.dll.unregister_service_callback(second), 0);
    drop((one, other));
    assert_eq!(told.iter().count() + told_too.iter().count(), 0);
    world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
}

#[test]
fn a_network_tells_of_its_own_endpoints() {
    let world = World::new();
    let (network, other) = (world.network("n"), world.network("other"));
    let namespace = world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
    let before = endpoint(&world, network);
    let ((own, told), (others, told_other)) = (Listener::new(), Listener::new());
    let handles = [on_network(&world, network, &own), on_network(&world, other, &others)];
    let after = endpoint(&world, network);
    for endpoint in [before, after] {
        attach(&world, namespace, endpoint, "Add");
        let (kind, data) = told.recv().unwrap();
        assert!(kind == 9 && data.to_lowercase().contains(&endpoint.to_string()), "{kind} {data}");
        attach(&world, namespace, endpoint, "Remove");
        assert_eq!(told.recv().unwrap().0, 0x10);
    }
    let foreign = endpoint(&world, other);
    attach(&world, namespace, foreign, "Add");
    assert_eq!(told_other.recv().unwrap().0, 9, "and nothing before it");
    for handle in handles {
        assert_eq!(world.dll.unregister_network_callback(handle), 0);
    }
    drop((own, others));
    assert_eq!(told.iter().chain(told_other.iter()).count(), 0);
}

#[test]
fn a_lost_server_is_told_once_and_a_new_registration_hears_again() {
    let world = World::new();
    let (first, told) = Listener::new();
    let handle = on_service(&world, &first).unwrap();
    world.stop();
    assert_eq!(told.recv().unwrap(), (0x0100_0000, String::new()));
    assert_eq!(on_service(&world, &first), Err(HResult::RPC_SERVER_UNAVAILABLE));
    world.start();
    let (second, told_again) = Listener::new();
    let again = on_service(&world, &second).unwrap();
    world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
    assert_eq!(told_again.recv().unwrap().0, 5);
    for handle in [handle, again] {
        assert_eq!(world.dll.unregister_service_callback(handle), 0);
    }
    drop(first);
    assert_eq!(told.iter().count(), 0, "a registration of before hears nothing more");
}

#[test]
fn a_callback_may_call_and_unregister_itself() {
    let world: &'static World = Box::leak(Box::new(World::new()));
    let (listener, told) = Listener::new();
    let handle = on_service(world, &listener).unwrap();
    let (done, was_done) = channel();
    let number = handle.addr();
    *listener.then.lock() = Some(Box::new(move || {
        world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
        let answer = world.dll.unregister_service_callback(nowhere(number));
        done.send(answer).unwrap();
    }));
    world.network("n");
    assert_eq!(told.recv().unwrap().0, 1);
    assert_eq!(was_done.recv().unwrap(), 0);
    world.network("other");
    // The thread that calls is the one that would have told of both; a later registration is told after them.
    let (later, told_later) = Listener::new();
    let later_handle = on_service(world, &later).unwrap();
    world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
    assert_eq!(told_later.recv().unwrap().0, 5);
    assert!(told.try_recv().is_err());
    assert_eq!(world.dll.unregister_service_callback(later_handle), 0);
}

#[test]
fn unregistering_waits_for_a_call_that_is_under_way() {
    let world = World::new();
    let (listener, told) = Listener::new();
    let handle = on_service(&world, &listener).unwrap().addr();
    let (go, may_go) = channel::<()>();
    let (ended, has_ended) = channel();
    *listener.then.lock() = Some(Box::new(move || {
        may_go.recv().unwrap();
        ended.send(()).unwrap();
    }));
    world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
    told.recv().unwrap();
    std::thread::scope(|scope| {
        let dll: &Dll = &world.dll;
        let unregistering = scope.spawn(move || dll.unregister_service_callback(nowhere(handle)));
        // Other calls go on meanwhile.
        world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
        go.send(()).unwrap();
        assert_eq!(unregistering.join().unwrap(), 0);
        has_ended.try_recv().expect("the callback had returned");
    });
}

#[test]
fn guest_network_services_tell_too() {
    let world = World::new();
    let ((of_service, told), (of_guest, told_guest)) = (Listener::new(), Listener::new());
    let service = on_service(&world, &of_service).unwrap();
    let guest = crate::guests::create(&world, Guid::from_u128(5), "{}").unwrap();
    let mut handle = std::ptr::null_mut();
    let answer =
        unsafe { world.dll.register_guest_callback(guest, Some(tell), of_guest.context(), &raw mut handle) };
    assert_eq!(answer, 0);
    let request = r#"{"ResourceType":"State","RequestType":"Update","Settings":{"State":"Started"}}"#;
    crate::guests::modify(&world, guest, request).unwrap();
    assert_eq!(told.recv().unwrap().0, 7);
    let (kind, data) = told_guest.recv().unwrap();
    assert!(kind == 0x11 && data.contains(&Guid::from_u128(5).to_string()), "{kind} {data}");
    assert_eq!(world.dll.unregister_guest_callback(handle), 0);
    assert_eq!(world.dll.unregister_service_callback(service), 0);
}
