//! Requests of clients on their way, and clients that are replaced.

use namiki_client::protocol::{Freshness, Request, Response};
use namiki_platform::seeded_random::Random;

use super::event::Event;
use super::session_model::SessionAnswer;
use super::session_users::FIRST_USER;
use super::world::{MS, World};
use crate::network::{ConnectionId, Inbox as _};

impl World {
    /// A client dies, or seems to, and another process resumes its session.
    pub(super) fn replace_client(&mut self, client: usize) {
        let number = self.clients.len() as u64;
        let random = Random::stream(self.options.seed, 100 + number);
        let Some(new) = self.clients[client].successor(number, random) else {
            return;
        };
        self.clients.push(new);
        self.clients[client].has_successor = true;
        self.report.resumed += 1;
        if self.random.chance(0.6) {
            self.clients[client].end();
            let connection = ConnectionId(client as u64);
            for running in self.nodes.iter().filter_map(|it| it.running.as_ref()) {
                running.inbox.client_gone(connection);
            }
        }
        let pause = 1 + self.random.below(300);
        self.after(pause * MS, Event::Client(number as usize));
    }

    /// A user acts.
    pub(super) fn act_on_sessions(&mut self, user: usize) {
        let told = self.checks.sessions.told;
        let now = self.now();
        let acting = &mut self.session_users[user];
        let sent = acting.act(now, told);
        let node = acting.node;
        let pause = 1 + acting.random.below(60);
        let delays: Vec<u64> = (sent.iter().map(|_| acting.random.below(2 * MS))).collect();
        for (request, delay) in sent.into_iter().zip(delays) {
            let client = FIRST_USER + user;
            self.after(
                50_000 + delay,
                Event::Request {
                    client,
                    node,
                    request,
                },
            );
        }
        self.after(pause * MS, Event::SessionUser(user));
    }

    /// A user is answered.
    pub(super) fn answer_session_user(
        &mut self,
        user: usize,
        response: Response,
    ) -> Result<(), String> {
        let Some(answer) = self.session_users[user].take(response) else {
            return Ok(());
        };
        match &answer {
            SessionAnswer::Opened { .. } => {}
            SessionAnswer::Refused { .. } => self.report.sessions_refused += 1,
            SessionAnswer::Closed { .. } => self.report.sessions_closed += 1,
        }
        (self.checks.sessions).answered(&answer, self.session_limits)
    }

    pub(super) fn send_requests(&mut self, client: usize, requests: Vec<Request>) {
        for request in requests {
            if let Request::Submit {
                session,
                group,
                commands,
                ..
            } = &request
            {
                let sent = self.checks.sent.entry((*session, *group));
                sent.or_insert_with(|| commands.clone());
            }
            let mut node = self.clients[client].node;
            if let Some(freshness) = freshness_of(&request)
                && (freshness != Freshness::Leader || self.random.chance(0.5))
            {
                // A leader that was deposed must not answer, a follower not too early.
                node = self.random.index(self.nodes.len());
            }
            let is_late = self.has_faults && self.random.chance(0.01);
            let most = if is_late { 1000 * MS } else { 2 * MS };
            let delay = 50_000 + self.random.below(most);
            self.after(
                delay,
                Event::Request {
                    client,
                    node,
                    request,
                },
            );
        }
    }
}

fn freshness_of(request: &Request) -> Option<Freshness> {
    match request {
        Request::Read { freshness, .. }
        | Request::Scan { freshness, .. }
        | Request::Tables { freshness, .. } => Some(*freshness),
        _ => None,
    }
}
