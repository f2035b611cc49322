//! TLS for a client: rustls with ring, and the roots of this machine or those of a file.
//!
//! Roots are read for each connection, so that a renewed bundle counts without a restart.

use std::path::Path;
use std::sync::Arc;

use futures_rustls::TlsConnector;
use futures_rustls::pki_types::pem::PemObject as _;
use futures_rustls::pki_types::{CertificateDer, ServerName};
use futures_rustls::rustls::crypto::ring;
use futures_rustls::rustls::{ClientConfig, RootCertStore};
use smol::net::TcpStream;

use super::dial::Stream;

/// Shakes hands over a fresh connection. `host` is the name, or IP address, that the certificate must
/// be for.
pub(super) async fn wrap(
    tcp: TcpStream,
    host: &str,
    ca_file: Option<&Path>,
) -> Result<Stream, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate can have"))?;
    let ca_file = ca_file.map(Path::to_owned);
    let roots = smol::unblock(move || match ca_file {
        Some(path) => from_file(&path),
        None => from_system(),
    });
    let roots = roots.await?;
    // Named here, because there is no process-wide default to be installed behind somebody's back.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    Ok(Box::new(stream.map_err(|why| format!("TLS with {host}: {why}"))?))
}

fn from_file(path: &Path) -> Result<RootCertStore, String> {
    let named = |why: &dyn std::fmt::Display| format!("certificates in {}: {why}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|why| named(&why))? {
        let certificate = certificate.map_err(|why| named(&why))?;
        roots.add(certificate).map_err(|why| named(&why))?;
    }
    if roots.is_empty() {
        return Err(named(&"there are none, and PEM is expected"));
    }
    Ok(roots)
}

fn from_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Bundles have certificates that nobody can use; those that can be are enough.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|why| format!(" ({why})")).unwrap_or_default();
        return Err(format!("this system has no trusted certificates{why}: name a file of them"));
    }
    Ok(roots)
}
