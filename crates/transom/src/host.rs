//! What the operating system calls this host. It must not know what the name is for.

/// The host's name; blank where there is none.
#[cfg(target_os = "linux")]
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The host's name; blank where there is none.
#[cfg(windows)]
pub fn name() -> String {
    crate::windows::host::name()
}

/// The host's name, as far as the environment knows it.
#[cfg(not(any(target_os = "linux", windows)))]
pub fn name() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_has_a_name() {
        assert!(!super::name().trim().is_empty());
    }
}
