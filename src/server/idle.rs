//! Connections on which nothing moves: neither does a request come, nor is a reply read.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// How long a connection may wait for its client.
pub(super) struct Idle {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether the timer runs since something moved last.
    armed: bool,
}

impl Idle {
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: Box::pin(sleep(limit)), armed: false }
    }

    /// Something has moved.
    pub fn reset(&mut self) {
        self.armed = false;
    }

    /// Called when nothing can move now. Ready when that has been so for too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.armed {
            self.timer.as_mut().reset(Instant::now() + self.limit);
            self.armed = true;
        }
        self.timer.as_mut().poll(cx)
    }
}
