//! The program `transom`: reads the command line, starts logging, runs the command, ends with its exit code.

use std::io::Write;
use std::sync::Arc;

use hcn::time::SystemClock;
use transom::cli::Cli;
use transom::exit::Exit;
use transom::logging::Origin;
use transom::{commands, logging};

fn main() -> Exit {
    let mut cli = match Cli::from_args(std::env::args_os()) {
        Ok(cli) => cli,
        Err(told) => {
            // Nothing is left to say it to when the terminal is gone.
            let _ = told.print();
            return if told.use_stderr() { Exit::Usage } else { Exit::Success };
        }
    };
    let origin = Origin { clock: Arc::new(SystemClock::default()), pid: std::process::id() };
    // Before logging starts: the file says how to log, too.
    let configured = commands::configuration::read(&mut cli);
    if let Err(error) = logging::init(&cli.log_settings(), origin) {
        return complain(&error);
    }
    if let Err(error) = configured {
        tracing::error!(error = %format!("{error:#}"), "The configuration cannot be used");
        return complain(&error);
    }
    for notice in cli.notices() {
        tracing::warn!(flag = %notice.flag, reason = notice.reason, "Flag accepted without effect");
    }
    for warning in cli.kube_proxy().into_iter().flat_map(transom::cli::kube_proxy::KubeProxyArgs::warnings) {
        tracing::warn!("{warning}");
    }
    commands::run(cli).unwrap_or_else(|error| complain(&error))
}

/// Says on standard error why the work could not be done; the alternate form shows the causes too.
fn complain(error: &dyn std::fmt::Display) -> Exit {
    let _ = writeln!(std::io::stderr().lock(), "error: {error:#}");
    Exit::Failure
}
