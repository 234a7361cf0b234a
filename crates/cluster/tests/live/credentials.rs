//! Who is let in and how: certificates, tokens, tokens that change, programs that give tokens, proxies, rights that are missing;
//! and configurations that cannot work, which say what is wrong.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use apiserver::{Allow, ConnectProxy, Connecting, Credential, Options, User};
use cluster::source::{Settings, start};
use cluster::status::Resource;
use cluster::{Connection, State};
use hcn::time::SystemClock;
use services::ObjectKind;

use crate::rig::{Rig, Source, service, settings};

fn tls() -> Rig {
    let rig = Rig::with(Options { anonymous: false, ..Options::default() });
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply(&service("web", "10.96.0.10"));
    rig
}

fn user() -> User {
    User::new("system:node:win-1")
}

fn works(rig: &Rig, credential: &Credential, connecting: &Connecting) -> Source {
    let source = Source::start(&settings(rig.kubeconfig(credential, connecting)));
    source.synced();
    source.until("Services are known", |told| told.names(ObjectKind::Service) == ["shop/web"]);
    source
}

#[test]
fn every_kind_of_credential_lets_in() {
    let rig = tls();
    let identity = rig.server.client_identity(&user()).expect("a certificate");
    let files = identity.write(rig.folder.path(), "client").expect("it is written");
    let file = rig.folder.path().join("token");
    rig.server.token_file(&file, &user()).expect("a token");
    let token = rig.server.access().issue_token(user());
    for credential in
        [Credential::Certificate(identity), files, Credential::Token(token), Credential::TokenFile(file)]
    {
        works(&rig, &credential, &Connecting::default());
        let users: std::collections::BTreeSet<String> =
            rig.server.activity().requests().into_iter().map(|request| request.user).collect();
        assert_eq!(users, ["system:node:win-1".to_owned()].into(), "{credential:?}");
        rig.server.activity().clear();
    }
}

#[cfg(unix)]
#[test]
fn a_program_gives_tokens_and_is_asked_again_when_one_is_refused() {
    let rig = tls();
    let plugin = apiserver::write_exec_plugin(rig.folder.path()).expect("the program is written");
    let token = rig.server.access().issue_token(user());
    plugin.set_answer(&apiserver::exec_credential(&token, None)).expect("its answer is written");
    let source = works(&rig, &plugin.credential(), &Connecting::default());
    let fresh = rig.server.access().issue_token(user());
    plugin.set_answer(&apiserver::exec_credential(&fresh, None)).expect("its answer is written");
    rig.server.access().revoke_token(&token);
    break_watches(&rig);
    rig.apply(&service("api", "10.96.0.11"));
    source.until("changes come with the new token", |told| told.names(ObjectKind::Service).len() == 2);
    assert!(plugin.calls() >= 2);
}

/// Ends all watches that are open; the next requests bring their credentials.
fn break_watches(rig: &Rig) {
    for resource in ["services", "endpointslices", "nodes", "servicecidrs"] {
        let watch = apiserver::Match::of("watch", resource);
        rig.server.faults().add(apiserver::Rule::new(watch, apiserver::Effect::EndAfterEvents(1)).once());
    }
    // An event for those that are open now.
    rig.apply(&service("nudge", "10.96.0.99"));
    rig.delete(&service("nudge", ""));
}

#[test]
fn a_token_file_may_change_at_any_time() {
    let rig = tls();
    let file = rig.folder.path().join("token");
    let mut token = rig.server.token_file(&file, &user()).expect("a token");
    let source = works(&rig, &Credential::TokenFile(file), &Connecting::default());
    let old = token.token().to_owned();
    token.rotate().expect("the file is written anew");
    rig.server.access().revoke_token(&old);
    rig.server.activity().clear();
    let mut server = rig.server;
    server.restart(apiserver::StoreFate::Kept).expect("every connection is lost");
    let rig = Rig { server, folder: rig.folder };
    rig.apply(&service("api", "10.96.0.11"));
    source.until("changes come with the new token", |told| told.names(ObjectKind::Service).len() == 2);
}

#[test]
fn proxies_are_gone_through() {
    let rig = tls();
    let proxy = ConnectProxy::start().expect("the proxy starts");
    let token = Credential::Token(rig.server.access().issue_token(user()));
    works(&rig, &token, &Connecting { proxy_url: Some(proxy.url()), ..Connecting::default() });
    assert!(!proxy.tunnels().is_empty(), "nothing went through the proxy");
}

#[test]
fn missing_rights_are_seen_and_waited_for() {
    let rig = tls();
    let token = Credential::Token(rig.server.access().issue_token(user()));
    rig.server.access().allow_only(vec![Allow::new(
        "system:node:win-1",
        &["list", "watch"],
        &["endpointslices", "nodes"],
    )]);
    let source = Source::start(&settings(rig.kubeconfig(&token, &Connecting::default())));
    source.until("slices are known", |told| told.synced.contains_key(&Resource::EndpointSlices));
    source.until_status("the refusal is seen", |status| {
        status.resources.get(&Resource::Services).is_some_and(|of| of.state == State::Failing)
    });
    let status = source.status(Resource::Services);
    let error = status.error.unwrap_or_default();
    assert!(error.contains("forbidden") && error.contains("services"), "{error}");
    assert!(!source.running.status().is_synced());
    rig.server.access().allow_everything();
    source.synced();
}

#[test]
fn credentials_of_nobody_are_seen() {
    let rig = tls();
    let wrong = Credential::Token("not-a-token".to_owned());
    let source = Source::start(&settings(rig.kubeconfig(&wrong, &Connecting::default())));
    source.until_status("the refusal is seen", |status| {
        status
            .resources
            .get(&Resource::Services)
            .and_then(|of| of.error.as_deref())
            .is_some_and(|error| error.contains("Unauthorized"))
    });
}

#[test]
fn a_server_with_another_certificate_is_not_talked_to() {
    let (rig, other) = (tls(), tls());
    let token = Credential::Token(rig.server.access().issue_token(user()));
    let connecting = Connecting { server: Some(rig.server.url()), ..Connecting::default() };
    let path = rig.folder.path().join("kubeconfig");
    other.server.write_kubeconfig(&path, &token, &connecting).expect("it is written");
    let source = Source::start(&settings(path));
    source.until_status("the certificate is refused", |status| {
        status
            .resources
            .get(&Resource::Services)
            .and_then(|of| of.error.as_deref())
            .is_some_and(|error| error.contains("certificate"))
    });
    assert!(rig.server.activity().requests().is_empty(), "the token was handed to a stranger");
}

#[test]
fn configurations_that_cannot_work_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("it is written");
        path
    };
    let config = |user: &str, cluster: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
    };
    let of =
        |kubeconfig: &Path| Connection { kubeconfig: Some(kubeconfig.to_owned()), ..Connection::default() };
    let pod = |place: &Path| {
        let place = place.to_owned();
        let resolve = move |path: &Path| place.join(path.strip_prefix("/").unwrap_or(path));
        Connection { resolve: Arc::new(resolve), ..Connection::default() }
    };
    let rows: Vec<(&str, Connection, &[&str])> = vec![
        ("no file", of(&folder.path().join("none")), &["kubeconfig", "none"]),
        ("no YAML", of(&file("yaml", "{[")), &["kubeconfig", "yaml"]),
        ("another kind of file", of(&file("other", "a: b\n")), &["kubeconfig", "other"]),
        (
            "no such token file",
            of(&file("token", &config("tokenFile: /nonexistent/token", ""))),
            &["tokenFile", "/nonexistent/token", "is not there"],
        ),
        (
            "no such certificate",
            of(&file("cert", &config("client-certificate: /nonexistent/c, client-key: /nonexistent/k", ""))),
            &["client-certificate", "/nonexistent/c"],
        ),
        (
            "no such authority",
            of(&file("ca", &config("token: t", ", certificate-authority: /nonexistent/ca"))),
            &["certificate-authority", "/nonexistent/ca"],
        ),
        (
            "no pod",
            pod(folder.path()),
            &["neither --kubeconfig nor --master was given", "give --kubeconfig FILE"],
        ),
        (
            "no address",
            Connection { master: Some("ftp://x".to_owned()), ..Connection::default() },
            &["--master", "\"ftp://x\"", "write https://HOST:PORT"],
        ),
    ];
    for (what, connection, wanted) in rows {
        let sink: cluster::watching::Sink = Arc::new(|_| {});
        let settings = Settings::new(connection, "win-1");
        let error = start(&settings, Arc::new(SystemClock::default()), &sink).expect_err(what).to_string();
        for part in wanted {
            assert!(error.contains(part), "{what}: {error}");
        }
    }
}
