//! What is answered at which path. Reads what is known and never waits for HNS; knows no socket.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use services::IpFamily;

use super::exchange::{Reply, Request};
use crate::api::ApiSource;
use crate::health::{Answer, Seen, Settings, Times, Verdict, judge};
use crate::listen::Board;
use crate::metrics::{Asked, Build, Format, Metrics, Sources};
use crate::run::Observer;
use crate::state::State;
use crate::status;

/// Text or a document that the program hands in; asked at each request.
pub type Given<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// What a site shows.
pub struct Content {
    /// What the loop publishes.
    pub state: State,
    /// What is known of the API.
    pub api: Arc<dyn ApiSource>,
    /// What the program says about itself.
    pub build: Build,
    /// Limits of health.
    pub health: Settings,
    /// The body of `/configz`.
    pub configz: Given<Value>,
    /// The body of `/flagz`: `name=value` lines.
    pub flagz: Given<String>,
    /// `/debug/pprof` is asked for.
    pub profiling: bool,
}

/// One of the two addresses that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Health.
    Healthz,
    /// Metrics and what belongs to them.
    Metrics,
    /// The status only.
    Status,
}

/// Answers. Shared by all sockets.
pub struct Site {
    content: Content,
    limits: Arc<Mutex<Settings>>,
    metrics: Metrics,
    board: Board,
}

impl Site {
    /// A site.
    pub fn new(content: Content) -> Self {
        let board = Board::default();
        let limits = Arc::new(Mutex::new(content.health));
        let metrics = Metrics::new(Sources {
            state: content.state.clone(),
            api: Arc::clone(&content.api),
            build: content.build.clone(),
            limits: Arc::clone(&limits),
            board: board.clone(),
        });
        Self { content, limits, metrics, board }
    }

    /// Who must be told of passes for the metrics to move.
    pub fn observer(&self) -> Box<dyn Observer> {
        self.metrics.observer()
    }

    /// What is listened on.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The figures.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What the loop publishes.
    pub fn state(&self) -> &State {
        &self.content.state
    }

    /// Changes the limits of health, as when the sync period is another.
    pub fn set_health(&self, settings: Settings) {
        *self.limits.lock() = settings;
    }

    /// Everything that health is judged by, and the verdict.
    pub fn judge(&self) -> (Seen, Verdict) {
        let seen = Seen::of(&self.content.state, self.content.api.figures(), self.board.failures());
        let limits = *self.limits.lock();
        let verdict = judge(&seen, &limits);
        (seen, verdict)
    }

    /// Answers a request that came through a door.
    pub fn answer(&self, door: Door, request: &Request) -> Reply {
        match (door, request.path.as_str()) {
            (Door::Healthz, "/healthz") => self.health(Asked::Healthz, Verdict::healthz),
            (Door::Healthz, "/livez") => self.health(Asked::Livez, Verdict::livez),
            (Door::Healthz, "/readyz") => self.health(Asked::Readyz, Verdict::readyz),
            (Door::Metrics, "/metrics") => self.figures(request, Metrics::expose),
            (Door::Metrics, "/metrics/slis") => self.figures(request, Metrics::expose_slis),
            (Door::Metrics, "/healthz") => {
                self.metrics.answered(Asked::Ping, 200);
                Reply::text(200, "ok")
            }
            (Door::Metrics, "/proxyMode") => Reply::text(200, "kernelspace"),
            (Door::Metrics, "/configz") => Reply::json(200, &(self.content.configz)()),
            (Door::Metrics, "/flagz") => Reply::text(200, (self.content.flagz)()),
            (Door::Metrics, "/statusz") => Reply::text(200, self.statusz()),
            (Door::Metrics | Door::Status, status::PATH) => self.status(request),
            (Door::Metrics, path) if path.starts_with("/debug/pprof") || path.starts_with("/debug/flags") => {
                Reply::not_found(if self.content.profiling {
                    "profiles are of Go programs; this one has none to offer. Its figures are at /metrics"
                } else {
                    "profiling is off, and this program would have no profiles to offer if it were on"
                })
            }
            _ => Reply::not_found("there is nothing at this path"),
        }
    }

    fn health(&self, asked: Asked, answer: fn(&Verdict, &Times<'_>) -> Answer) -> Reply {
        let (_, verdict) = self.judge();
        let state = &self.content.state;
        let at = |moment| state.wall(moment);
        let times = Times { wall: state.clock().wall(), started: state.started(), at: &at };
        let answer = answer(&verdict, &times);
        self.metrics.answered(asked, answer.status);
        Reply::json(answer.status, &answer.document)
    }

    fn figures(
        &self,
        request: &Request,
        expose: fn(&Metrics, Format) -> Result<String, std::fmt::Error>,
    ) -> Reply {
        let format = Format::accepted(request.accept.as_deref());
        match expose(&self.metrics, format) {
            Ok(body) => Reply { status: 200, content_type: format.content_type(), header: None, body },
            Err(_) => Reply::text(500, "the metrics cannot be written\n"),
        }
    }

    /// A few lines in the form of upstream's `/statusz`.
    fn statusz(&self) -> String {
        let state = &self.content.state;
        let wall = state.clock().wall();
        let up = wall.duration_since(state.started()).unwrap_or_default();
        format!(
            "transom proxy statusz\n\nStarted: {}\nUp: {} s\nVersion: {}\nCommit: {}\nPaths: /configz /flagz /healthz /livez /metrics /metrics/slis /proxyMode /readyz {}\n",
            crate::clock_text::rfc3339(state.started()),
            up.as_secs(),
            self.content.build.version,
            self.content.build.commit,
            status::PATH
        )
    }

    /// The status names Services and errors: it is for the machine itself.
    fn status(&self, request: &Request) -> Reply {
        if !request.peer.is_loopback() {
            return Reply::text(403, "the status is answered on this machine only, to a loopback address\n");
        }
        let filter = match status::Filter::parse(|name| request.parameter(name)) {
            Ok(filter) => filter,
            Err(error) => return Reply::text(400, format!("{error}\n")),
        };
        let (seen, verdict) = self.judge();
        Reply::json(200, &status::document(&self.content.state, &seen, &verdict, &filter))
    }

    /// Answers a load balancer that asks about one Service, whose port it reached through `family`.
    pub fn check(&self, port: u16, family: IpFamily) -> Reply {
        let (seen, verdict) = self.judge();
        let limits = *self.limits.lock();
        let Some(check) = seen.facts.checks.get(&port) else {
            return Reply::not_found("no Service has this health check port any more");
        };
        let reply = crate::checks::answer(check, family, verdict.is_serving(), &seen, &limits);
        self.metrics.answered(Asked::Check, reply.status);
        reply
    }
}
