//! What ends a connection from outside: that nothing moves on it, neither does a request come nor is a reply read, for
//! longer than --timeout; or that another client kills it.

use crate::command::{Client, ServerState};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Why a connection has to end.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseReason {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it was idle for as long as --timeout")]
    Idle,
    #[error("another client killed it")]
    Killed,
}

/// How long a connection may wait for its client.
pub(super) struct IdleTimer {
    client: Arc<Client>,
    context: Arc<ServerState>,
    /// Runs for the limit that it was set to.
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
    /// Whether the timer runs since something moved last.
    armed: bool,
}

impl IdleTimer {
    pub fn new(client: Arc<Client>, context: Arc<ServerState>) -> Self {
        Self { client, context, timer: None, armed: false }
    }

    /// Passes on whether something moved, and fails when nothing has for too long, or may any more.
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

    /// Called when nothing can move now. Ready when that has been so for too long.
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
