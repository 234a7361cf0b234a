//! The cluster's certificate authority, the server's certificate and its clients'.
//!
//! As a real API server, this one asks for a client's certificate but does not end the handshake over a wrong one: who
//! the certificate stands for, if for anybody, is decided when a request comes, and the answer is 401.
//! This module must not know requests.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use crate::access::User;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate could not be made.
    #[error("a certificate for {name:?} cannot be made: {source}")]
    Certificate {
        /// Whom it is for.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
    /// The certificate cannot be used.
    #[error("the server's certificate cannot be used: {0}")]
    Server(#[from] rustls::Error),
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate: String,
    /// Its key, PEM (PKCS#8).
    pub key: String,
    pub(crate) der: Vec<u8>,
    key_der: Vec<u8>,
}

/// What becomes of a client's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    Current,
    Expired,
}

/// The cluster's CA.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

fn failed(name: &str) -> impl Fn(rcgen::Error) -> TlsError {
    let name = name.to_owned();
    move |source| TlsError::Certificate { name: name.clone(), source }
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(failed(name))?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key).map_err(failed(name))?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    fn issue(
        &self,
        name: &str,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, TlsError> {
        let key = KeyPair::generate().map_err(failed(name))?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed(name))?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        })
    }

    /// A certificate of the server for DNS names and addresses.
    pub(crate) fn server(&self, names: &[String]) -> Result<Identity, TlsError> {
        let mut params = CertificateParams::new(names.to_vec()).map_err(failed("the server"))?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        self.issue("the server", params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's certificate: the common name is the user, organisations are groups.
    pub(crate) fn client(&self, user: &User, validity: Validity) -> Result<Identity, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user.name.as_str());
        for group in &user.groups {
            params.distinguished_name.push(DnType::OrganizationName, group.as_str());
        }
        if validity == Validity::Expired {
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        self.issue(&user.name, params, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// Names for the server's certificate: what in-cluster clients call it, and where it listens.
pub(crate) fn server_names(address: IpAddr, more: &[String]) -> Vec<String> {
    let mut names: Vec<String> =
        ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned).into();
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names.extend(more.iter().cloned());
    names.dedup();
    names
}

/// The server's side of TLS: HTTP/2 if `http2`, and HTTP/1.1.
pub(crate) fn server_config(identity: &Identity, http2: bool) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key_der.clone()));
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AskAnybody { provider }))
        .with_single_cert(vec![CertificateDer::from(identity.der.clone())], key)?;
    config.alpn_protocols =
        if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(Arc::new(config))
}

/// Takes any client's certificate whose key the client has.
#[derive(Debug)]
struct AskAnybody {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AskAnybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
