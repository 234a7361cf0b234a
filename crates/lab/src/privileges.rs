//! Giving up what a process does not need any more. All of it concerns the calling thread and those that it starts
//! later: to be called while there is no other.

use std::fmt;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// What is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Other groups of the user.
    Groups,
    /// The user and group.
    User,
    /// Capabilities.
    Capabilities,
    /// Getting any of it back by running a program.
    NewPrivileges,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Groups => "the user's other groups",
            Self::User => "the user",
            Self::Capabilities => "capabilities",
            Self::NewPrivileges => "new privileges",
        })
    }
}

/// Something that could not be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{privilege}: {error}")]
pub struct PrivilegeError {
    /// What.
    pub privilege: Privilege,
    /// Why.
    pub error: Errno,
}

/// What was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The user that the process goes on as; none: the same as before, because the user namespace has no other.
    pub user: Option<u32>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            Some(user) => write!(f, "user {user}, no capabilities"),
            None => f.write_str("the same user, no capabilities"),
        }
    }
}

/// Goes on as this user (and the group of the same number), without capabilities, for good.
pub fn drop_all(user: Option<u32>) -> Result<Dropped, PrivilegeError> {
    let failed = |privilege| move |error| PrivilegeError { privilege, error };
    let user = match user {
        Some(user) if change_user(user)? => Some(user),
        _ => None,
    };
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(failed(Privilege::Capabilities))?;
    rustix::thread::set_no_new_privs(true).map_err(failed(Privilege::NewPrivileges))?;
    Ok(Dropped { user })
}

/// False: the user namespace does not know the user.
fn change_user(user: u32) -> Result<bool, PrivilegeError> {
    let (uid, gid) = (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(user));
    let failed = |privilege| move |error| PrivilegeError { privilege, error };
    match rustix::thread::set_thread_groups(&[]) {
        Ok(()) => {}
        // A user namespace whose owner may not change groups has no other users either.
        Err(Errno::PERM) => return Ok(false),
        Err(error) => return Err(failed(Privilege::Groups)(error)),
    }
    match rustix::thread::set_thread_res_gid(gid, gid, gid) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::PERM) => return Ok(false),
        Err(error) => return Err(failed(Privilege::User)(error)),
    }
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(failed(Privilege::User))?;
    Ok(true)
}
