//! Closing of connections: after `--timeout` without a request or a reply being read, or by CLIENT KILL.

use crate::command::{Client, ServerState};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Reason why a connection must be closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseReason {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it was idle for as long as --timeout")]
    Idle,
    #[error("another client killed it")]
    Killed,
}

/// Timer of the time without traffic on a connection.
pub(super) struct IdleTimer {
    client: Arc<Client>,
    context: Arc<ServerState>,
    /// Timeout in force and the timer that was started with it.
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
    /// `true` if the timer was started after the latest traffic.
    armed: bool,
}

impl IdleTimer {
    pub fn new(client: Arc<Client>, context: Arc<ServerState>) -> Self {
        Self { client, context, timer: None, armed: false }
    }

    /// Returns the result of a read or write of the socket. If it is pending, checks for CLIENT KILL and the
    /// timeout, which are errors.
    pub fn on_poll<T>(
        &mut self,
        cx: &mut task::Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<Result<T, CloseReason>> {
        match poll {
            Poll::Pending if self.client.is_killed() => Poll::Ready(Err(CloseReason::Killed)),
            Poll::Pending => self.poll(cx).map(|()| Err(CloseReason::Idle)),
            Poll::Ready(outcome) => {
                self.armed = false;
                Poll::Ready(outcome.map_err(CloseReason::Io))
            }
        }
    }

    /// Polls the timer while neither reads nor writes are possible; ready when the timeout has passed.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Some(limit) = self.context.live.timeout() else {
            self.timer = None;
            return Poll::Pending;
        };
        let (last, timer) = self.timer.get_or_insert_with(|| {
            self.armed = true;
            (limit, Box::pin(sleep(limit)))
        });
        if !self.armed || *last != limit {
            timer.as_mut().reset(Instant::now() + limit);
            (*last, self.armed) = (limit, true);
        }
        timer.as_mut().poll(cx)
    }
}
