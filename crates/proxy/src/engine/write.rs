//! Writing load balancers, and what follows from each answer.

use hcn::loadbalancer::Frontend;
use hcn::{ErrorClass, Guid, HResult, Hcn, HcnExt, Kind, LoadBalancer};

use super::balancers::Step;
use super::cleanup::delete_object;
use super::target::{Target, all_fields, differences as compare, document};
use super::{OWNER, Pass, Proxy, Retryable};
use crate::observed::ObservedBalancer;
use crate::status::{Action, Change, ConditionReason, FieldChange, ProxyCondition};

/// A load balancer that is to be written; everything is decided.
pub(super) struct Write {
    id: Guid,
    target: Target,
    how: How,
}

enum How {
    Create,
    /// In place, for these differences.
    Modify(Vec<FieldChange>),
}

/// A load balancer that is to be made anew; everything is decided.
pub(super) struct Replacement {
    /// The old one.
    pub(super) id: Guid,
    pub(super) target: Target,
    pub(super) differences: Vec<FieldChange>,
    pub(super) why: &'static str,
}

/// What HNS answered to a write that it took.
pub(super) enum Answer {
    Created(Guid),
    /// And what it holds now.
    Modified(Box<hcn::Result<LoadBalancer>>),
}

impl Write {
    pub(super) fn create(id: Guid, target: Target) -> Self {
        Self { id, target, how: How::Create }
    }

    pub(super) fn modify(id: Guid, target: Target, differences: Vec<FieldChange>) -> Self {
        Self { id, target, how: How::Modify(differences) }
    }

    /// Calls HNS, and nothing else.
    pub(super) fn call(&self, hcn: &dyn Hcn) -> hcn::Result<Answer> {
        let document = document(self.id, &self.target);
        match self.how {
            How::Create => hcn.make(self.id, &document).map(Answer::Created),
            How::Modify(_) => {
                hcn.modify(Kind::LoadBalancer, self.id, &document.to_json())?;
                Ok(Answer::Modified(Box::new(hcn.get(self.id))))
            }
        }
    }
}

impl Proxy {
    /// Writes a load balancer now.
    pub(super) fn write(&mut self, write: Write, pass: &mut Pass) -> Step {
        let answer = write.call(&*self.hcn);
        pass.creating.clear();
        self.written(write, answer, pass)
    }

    /// Notes what came of a write.
    pub(super) fn written(&mut self, write: Write, answer: hcn::Result<Answer>, pass: &mut Pass) -> Step {
        let Write { id, target, how } = write;
        let step = match how {
            How::Create => {
                let made = answer.map(|answer| match answer {
                    Answer::Created(made) => made,
                    Answer::Modified(_) => id,
                });
                self.created(&target, made, pass)
            }
            How::Modify(differences) => self.modified(id, &target, differences, answer, pass),
        };
        step.of(&target)
    }

    fn modified(
        &mut self,
        id: Guid,
        target: &Target,
        differences: Vec<FieldChange>,
        answer: hcn::Result<Answer>,
        pass: &mut Pass,
    ) -> Step {
        let frontend = target.wanted.frontend;
        let why = "it differs from what is wanted";
        let read = match answer {
            Ok(Answer::Modified(read)) => read,
            Ok(Answer::Created(made)) => return self.created(target, Ok(made), pass),
            Err(error) if error.class() == ErrorClass::Unsupported => {
                self.note_modify_ineffective(&format!("HNS answered {}", error.code));
                return self.replace_by(id, target, differences, why, pass);
            }
            Err(error) if error.class() == ErrorClass::NotFound => {
                self.observed.remove_balancer(id);
                return self.create_now(target, pass);
            }
            Err(error) => {
                self.observed.doubt(id);
                return self.write_failed(frontend, "modify", &error, target, pass);
            }
        };
        // Some builds report success and change nothing (kubernetes/kubernetes#131466).
        match self.take_balancer(id, *read) {
            Ok(true) => {}
            Ok(false) => return self.create_now(target, pass),
            Err(error) => {
                self.observed.doubt(id);
                return self.balancer_failed(frontend, "verify", &error, pass);
            }
        }
        if self.observed.balancer(id).is_none_or(|observed| !compare(observed, target).is_empty()) {
            self.note_modify_ineffective("a modified load balancer read back unchanged");
            return self.replace_by(id, target, differences, why, pass);
        }
        self.wrote(id, target, Action::Modify, differences, why, pass);
        Step::Done
    }

    fn note_modify_ineffective(&mut self, how: &str) {
        self.modify_ineffective = true;
        self.set_condition(ProxyCondition::new(
            ConditionReason::ModifyIneffective,
            format!("load balancers are replaced instead of modified: {how}"),
        ));
    }

    /// Deletes a load balancer and makes another for its frontend.
    pub(super) fn replace(&mut self, replacement: Replacement, pass: &mut Pass) -> Step {
        let Replacement { id, target, differences, why } = replacement;
        self.replace_by(id, &target, differences, why, pass).of(&target)
    }

    fn replace_by(
        &mut self,
        id: Guid,
        target: &Target,
        differences: Vec<FieldChange>,
        why: &str,
        pass: &mut Pass,
    ) -> Step {
        let frontend = target.wanted.frontend;
        if let Err(error) = delete_object(&*self.hcn, Kind::LoadBalancer, id) {
            self.observed.doubt(id);
            return self.balancer_failed(frontend, "delete", &error, pass);
        }
        let old = self.forget_balancer(id);
        let made = self.hcn.make(self.balancer_id(&frontend), &document(self.balancer_id(&frontend), target));
        match made {
            Ok(made) => {
                self.put_target(made, target);
                self.wrote(made, target, Action::Replace, differences, why, pass);
                // Whatever else the old one held is missing now.
                for other in old.iter().flat_map(|old| &old.frontends).filter(|&&other| other != frontend) {
                    self.touch(*other);
                }
                Step::Done
            }
            Err(error) => {
                // Either may be there: the new one when the reply was lost, the old one when its deletion was a lie.
                let backends = old.iter().flat_map(|old| &old.backends).chain(&target.backends).copied();
                self.observed.doubt_balancer(self.balancer_id(&frontend), backends);
                self.write_failed(frontend, "create", &error, target, pass)
            }
        }
    }

    /// Something malformed may stand under a frontend's id: a create that failed half-way left it.
    pub(super) fn clear_id(&mut self, frontend: Frontend, pass: &mut Pass) -> Option<Step> {
        let id = self.balancer_id(&frontend);
        self.observed.balancer(id)?;
        if let Err(error) = delete_object(&*self.hcn, Kind::LoadBalancer, id) {
            self.observed.doubt(id);
            return Some(self.balancer_failed(frontend, "delete a malformed load balancer at", &error, pass));
        }
        self.forget_balancer(id);
        None
    }

    fn create_now(&mut self, target: &Target, pass: &mut Pass) -> Step {
        if let Some(step) = self.clear_id(target.wanted.frontend, pass) {
            return step;
        }
        let id = self.balancer_id(&target.wanted.frontend);
        let answer = self.hcn.make(id, &document(id, target));
        self.created(target, answer, pass)
    }

    fn created(&mut self, target: &Target, answer: hcn::Result<Guid>, pass: &mut Pass) -> Step {
        match answer {
            Ok(made) => {
                self.put_target(made, target);
                let fields = all_fields(target);
                self.wrote(made, target, Action::Create, fields, "it is wanted and HNS has none", pass);
                Step::Done
            }
            Err(error) => {
                let id = self.balancer_id(&target.wanted.frontend);
                self.observed.doubt_balancer(id, target.backends.iter().copied());
                self.write_failed(target.wanted.frontend, "create", &error, target, pass)
            }
        }
    }

    fn wrote(
        &mut self,
        id: Guid,
        target: &Target,
        action: Action,
        fields: Vec<FieldChange>,
        why: &str,
        pass: &mut Pass,
    ) {
        let frontend = target.wanted.frontend;
        self.mine.insert(id);
        self.doomed.remove(&id);
        self.reapply.remove(&frontend);
        self.backoff.succeeded(&Retryable::Frontend(frontend));
        pass.changed(Change {
            action,
            kind: Kind::LoadBalancer,
            subject: frontend.to_string(),
            id,
            service: Some(target.service.clone()),
            role: Some(target.wanted.role),
            fields,
            why: why.to_owned(),
        });
        if self.config.verify_writes && action != Action::Modify && !pass.down {
            match self.reread_balancer(id) {
                Ok(_) => {
                    if self.observed.balancer(id).is_none_or(|observed| !compare(observed, target).is_empty())
                    {
                        self.touch(frontend);
                    }
                }
                Err(error) => {
                    self.observed.doubt(id);
                    pass.failed(format!("verify load balancer {frontend}"), &error);
                }
            }
        }
    }

    fn put_target(&mut self, id: Guid, target: &Target) {
        self.observed.put_balancer(
            id,
            ObservedBalancer {
                frontends: [target.wanted.frontend].into_iter().collect(),
                internal_port: target.wanted.internal_port,
                distribution: target.wanted.distribution.clone(),
                mapping_flags: target.wanted.mapping_flags,
                flags: target.wanted.flags,
                source_vip: target.source_vip,
                backends: target.backends.clone().into(),
                owner: Some(OWNER.into()),
                odd: false,
                degraded: false,
            },
        );
    }

    /// A load balancer is gone: its backends may be unused now.
    pub(super) fn forget_balancer(&mut self, id: Guid) -> Option<ObservedBalancer> {
        let old = self.observed.remove_balancer(id)?;
        self.mine.remove(&id);
        self.garbage.extend(old.backends.iter().copied());
        Some(old)
    }

    /// A refused create or modify: the refusal may tell that the picture of HNS is out of date.
    fn write_failed(
        &mut self,
        frontend: Frontend,
        what: &str,
        error: &hcn::Error,
        target: &Target,
        pass: &mut Pass,
    ) -> Step {
        if error.code == HResult::INVALID_PARAMETER
            && target.backends.len() > 64
            && self.learned_limit.is_none()
        {
            self.learned_limit = Some(64);
            self.set_condition(ProxyCondition::new(
                ConditionReason::DestinationLimitLearned,
                format!(
                    "HNS refused a load balancer with {} backends; at most 64 are used from now on",
                    target.backends.len()
                ),
            ));
        }
        if error.code == HResult::PORT_NOT_FOUND && !pass.down && self.learn_portless(target) {
            return self.converge(frontend, pass);
        }
        let taken = matches!(error.class(), ErrorClass::AlreadyExists | ErrorClass::PortTaken)
            || error.code == HResult::INVALID_JSON_REFERENCE
            || error.class() == ErrorClass::NotFound;
        if taken && !pass.relisted && !pass.down {
            pass.relisted = true;
            match self.relist(pass) {
                // Trying again at once is worth while only if something was out of date.
                Ok(()) if self.is_outdated(target) => return self.converge(frontend, pass),
                Ok(()) => {}
                Err(error) => return self.balancer_failed(frontend, "list load balancers for", &error, pass),
            }
        }
        self.balancer_failed(frontend, what, error, pass)
    }

    /// HNS found no switch port for some backend. A pod that is being set up, or was not cleared away, must not cost
    /// the others their load balancer: local endpoints that are in no namespace are left out until they are.
    fn learn_portless(&mut self, target: &Target) -> bool {
        let mut learned = false;
        for &backend in &target.backends {
            let local = self.observed.endpoint(backend).is_some_and(|endpoint| !endpoint.remote);
            // What was read when it was attached may not hold any more.
            if local && self.reread_endpoint(backend).is_ok() {
                learned |= self.observed.note_portless(backend);
            }
        }
        learned
    }

    /// Whether HNS holds something at the target's frontend, or lacks a backend, that the target did not know of.
    fn is_outdated(&self, target: &Target) -> bool {
        let frontend = target.wanted.frontend;
        !self.observed.balancers_at(frontend).is_empty()
            || self.observed.balancer(self.balancer_id(&frontend)).is_some()
            || target.backends.iter().any(|&id| self.observed.endpoint(id).is_none())
    }

    pub(super) fn balancer_failed(
        &mut self,
        frontend: Frontend,
        what: &str,
        error: &hcn::Error,
        pass: &mut Pass,
    ) -> Step {
        pass.failed(format!("{what} load balancer {frontend}"), error);
        if !pass.down {
            self.backoff.failed(
                Retryable::Frontend(frontend),
                error.to_string(),
                &*self.clock,
                &*self.entropy,
            );
        }
        Step::Later
    }
}
