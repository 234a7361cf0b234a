//! `transom proxy --windows-service`: the proxy for Windows' service manager. It must not know what the proxy does.
//!
//! The service is running as soon as the process is: what it waits for then (HNS, its network) may take any time. Stop, shutdown
//! and preshutdown ask it to stop, and it ends within five seconds, also while a call of HNS hangs. HNS's objects stay.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use parking_lot::Mutex;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle};
use windows_service::{define_windows_service, service_dispatcher};
use windows_sys::Win32::Foundation::ERROR_FAILED_SERVICE_CONTROLLER_CONNECT;

use crate::cli::ProxyCommand;
use crate::commands::proxy;
use crate::exit::Exit;
use crate::stop::Stop;

/// How long the service manager may wait for a start.
const START: Duration = Duration::from_secs(10);

/// How long it may wait for an end; the proxy takes less than five seconds.
const END: Duration = Duration::from_secs(8);

/// What the service is to do: the service manager calls a function without a context.
static JOB: Mutex<Option<ProxyCommand>> = Mutex::new(None);

/// How it went.
static OUTCOME: Mutex<Option<anyhow::Result<Exit>>> = Mutex::new(None);

define_windows_service!(service_entry, service_main);

/// Runs the proxy as the service that this process was started for.
pub fn run(command: ProxyCommand) -> anyhow::Result<Exit> {
    let name = command.windows.service_name().to_owned();
    *JOB.lock() = Some(command);
    match service_dispatcher::start(&name, service_entry) {
        Ok(()) => OUTCOME.lock().take().unwrap_or_else(|| Err(anyhow!("the service {name} was not begun"))),
        Err(windows_service::Error::Winapi(error)) if is_console(&error) => bail!(
            "--windows-service: this process was not started by Windows' service manager. Leave the flag out to run in a \
             console, or make a service with it: sc.exe create {name} binPath= \"<this command line>\" start= auto"
        ),
        Err(error) => Err(error).with_context(|| format!("cannot run as the service {name}")),
    }
}

fn is_console(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_FAILED_SERVICE_CONTROLLER_CONNECT.cast_signed())
}

/// Called by the service manager on a thread of its own.
fn service_main(_arguments: Vec<OsString>) {
    let Some(command) = JOB.lock().take() else { return };
    let outcome = serve(command);
    if let Err(error) = &outcome {
        tracing::error!(error = format!("{error:#}"), "The service has ended");
    }
    *OUTCOME.lock() = Some(outcome);
}

fn serve(command: ProxyCommand) -> anyhow::Result<Exit> {
    let name = command.windows.service_name().to_owned();
    let stop = Stop::new();
    let for_handler = stop.clone();
    let handler = move |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
            for_handler.ask();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    let manager = service_control_handler::register(&*name, handler)
        .context("the service manager does not take the service")?;
    tell(manager, ServiceState::StartPending, ServiceExitCode::NO_ERROR);
    stop.when_asked(move || tell(manager, ServiceState::StopPending, ServiceExitCode::NO_ERROR));
    tell(manager, ServiceState::Running, ServiceExitCode::NO_ERROR);
    tracing::info!(service = name, "Running as a service");
    let outcome = proxy::run(command, &stop);
    tracing::info!(service = name, "The service has stopped");
    tell(manager, ServiceState::Stopped, exit_code(&outcome));
    outcome
}

fn tell(manager: ServiceStatusHandle, state: ServiceState, exit_code: ServiceExitCode) {
    if let Err(error) = manager.set_service_status(status(state, exit_code)) {
        tracing::warn!(%error, ?state, "The service manager does not hear of a change");
    }
}

fn status(state: ServiceState, exit_code: ServiceExitCode) -> ServiceStatus {
    let is_running = state == ServiceState::Running;
    let (checkpoint, wait_hint) = match state {
        ServiceState::StartPending => (1, START),
        ServiceState::StopPending => (1, END),
        _ => (0, Duration::ZERO),
    };
    ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: if is_running {
            ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN | ServiceControlAccept::PRESHUTDOWN
        } else {
            ServiceControlAccept::empty()
        },
        exit_code,
        checkpoint,
        wait_hint,
        process_id: None,
    }
}

/// The exit code that the service manager is told: the program's own.
fn exit_code(outcome: &anyhow::Result<Exit>) -> ServiceExitCode {
    let code = outcome.as_ref().map_or(Exit::Failure, |exit| *exit).code();
    if code == 0 { ServiceExitCode::NO_ERROR } else { ServiceExitCode::ServiceSpecific(u32::from(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_how_it_went() {
        for (outcome, wanted) in [
            (Ok(Exit::Success), ServiceExitCode::NO_ERROR),
            (Ok(Exit::InputProblems), ServiceExitCode::ServiceSpecific(3)),
            (Err(anyhow!("no HNS")), ServiceExitCode::ServiceSpecific(1)),
        ] {
            assert_eq!(exit_code(&outcome), wanted);
        }
    }

    #[test]
    fn controls_are_accepted_while_running_only_and_pending_states_have_hints() {
        for (state, accepts, hint) in [
            (ServiceState::StartPending, false, true),
            (ServiceState::Running, true, false),
            (ServiceState::StopPending, false, true),
            (ServiceState::Stopped, false, false),
        ] {
            let status = status(state, ServiceExitCode::NO_ERROR);
            assert_eq!(!status.controls_accepted.is_empty(), accepts, "{state:?}");
            assert_eq!(!status.wait_hint.is_zero(), hint, "{state:?}");
        }
    }
}
