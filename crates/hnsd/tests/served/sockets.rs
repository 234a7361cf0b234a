//! Who can connect, and what a server leaves behind.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use hcn::Hcn;
use hns::Profile;
use hnsd::token::TokenFile;
use hnsd::{Address, ConnectError, ErrorKind, Limits, Options, Remote, Server, ServerError, Token};

use crate::world::World;

fn world() -> World {
    World::new(Profile::Ws2022, Limits::default())
}

#[test]
fn socket_and_token_file_are_their_owners_only() {
    let world = world();
    for file in [world.socket(), world.token_file()] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn another_user_can_neither_connect_nor_read_the_token() {
    assert!(rustix::process::geteuid().is_root(), "this test becomes another user, and must be run as root");
    let world = world();
    // The folder lets everybody through; the files do not.
    std::fs::set_permissions(world.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (user, works) in [(0, true), (65_534, false)] {
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program).args(arguments).uid(user).gid(user).output().unwrap().status.success()
        };
        let token_file = world.token_file();
        assert_eq!(run("cat", &[token_file.to_str().unwrap()]), works, "user {user} and the token file");
        // To write into a socket's file is what connecting to it needs.
        let socket = world.socket();
        assert_eq!(run("test", &["-w", socket.to_str().unwrap()]), works, "user {user} and the socket");
        assert!(run("test", &["-S", socket.to_str().unwrap()]), "user {user} sees that it is there");
    }
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_and_that_of_a_live_one_is_not() {
    let mut world = world();
    let server = || Server::new(Arc::clone(&world.service) as Arc<_>, Limits::default());
    match server().unix(&world.socket()).map(|_| ()) {
        Err(ServerError::InUse(path)) => assert_eq!(path, world.socket()),
        other => panic!("{other:?}"),
    }
    world.remote("proxy").version().unwrap();
    let path = world.folder.path().join("dead.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "what a killed server leaves");
    let running = server().unix(&path).unwrap().start().unwrap();
    let remote = Remote::connect(Address::Unix(path.clone()), Options::default()).unwrap();
    remote.version().unwrap();
    drop(running);
    assert!(!path.exists(), "a server takes its socket with it");
    let (socket, token) = (world.socket(), world.token_file());
    drop(world.running.take());
    assert!(!socket.exists() && !token.exists());
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let world = world();
    let path = world.folder.path().join("notes");
    std::fs::write(&path, "precious").unwrap();
    let server = Server::new(Arc::clone(&world.service) as Arc<_>, Limits::default());
    let error = server.unix(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("notes is there and is no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_server_that_ends_leaves_the_files_of_its_successor() {
    let mut world = world();
    let first = world.running.take().unwrap();
    // Somebody has removed the first one's files, and another server has come.
    for file in first.files() {
        std::fs::remove_file(file).unwrap();
    }
    world.start();
    drop(first);
    world.remote("proxy").version().unwrap();
    Remote::connect(Address::TokenFile(world.token_file()), Options::default()).unwrap().version().unwrap();
}

#[test]
fn a_port_wants_the_token_of_its_file() {
    let world = world();
    let TokenFile { address, token } = TokenFile::read(&world.token_file()).unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0);
    assert_eq!(world.running.as_ref().unwrap().tcp_addresses(), [address]);
    let connect = |token: Option<Token>| {
        Remote::connect(Address::Tcp(address), Options { token, ..Options::actor("proxy") })
    };
    connect(Some(token.clone())).unwrap().version().unwrap();
    for (shown, part) in [
        (None, "a token is needed"),
        (Some(Token::new("")), "the token is wrong"),
        (Some(Token::new(&token.secret()[1..])), "the token is wrong"),
        (Some(Token::new(format!("{}0", token.secret()))), "the token is wrong"),
    ] {
        match connect(shown) {
            Err(ConnectError::Refused { error, .. }) => {
                assert_eq!(error.kind, ErrorKind::Refused);
                assert!(error.message.contains(part), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn sockets_that_listen_already_are_served() {
    let world = world();
    let path = world.folder.path().join("given.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = Address::Tcp(tcp.local_addr().unwrap());
    let running = Server::new(Arc::clone(&world.service) as Arc<_>, Limits::default())
        .unix_listener(unix)
        .tcp_with_token(tcp, Token::new("told otherwise"))
        .unwrap()
        .start()
        .unwrap();
    Remote::connect(Address::Unix(path.clone()), Options::default()).unwrap().version().unwrap();
    let options = Options { token: Some(Token::new("told otherwise")), ..Options::default() };
    Remote::connect(port, options).unwrap().version().unwrap();
    drop(running);
    assert!(path.exists(), "whoever made it removes it");
    let far = TcpListener::bind("0.0.0.0:0").unwrap();
    let server = Server::new(Arc::clone(&world.service) as Arc<_>, Limits::default());
    let error = server.tcp_with_token(far, Token::new("x")).map(|_| ()).unwrap_err();
    assert!(matches!(error, ServerError::NotLoopback(_)), "{error}");
}
