//! The sender of data.

use fabricmark_link::{Ecn, Length, Packet};
use fabricmark_units::{BIT_NS, Instant, Nanos};

use crate::Settings;
use crate::path::{Ack, Segment};
use crate::recovery::Recovery;
use crate::scoreboard::{Answered, Scoreboard};
use crate::timeout::Timeout;
use crate::usage::Usage;
use crate::window::{Answer, Window};

/// Sends unlimited data as the window allows.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: Settings,
    pub window: Window,
    pub timeout: Timeout,
    pub board: Scoreboard,
    next_segment: u64,
    /// Recovery in progress: the window was reduced and stays until the losses are repaired.
    recovery: Option<Recovery>,
    usage: Usage,
    /// Earliest time of the next transmission, if paced.
    paced_until: Instant,
    pub tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub retransmitted: u64,
    pub reductions: u64,
    pub timeouts: u64,
    /// When slow start first ended.
    pub open: Option<Instant>,
}

impl Sender {
    pub fn new(settings: &Settings) -> Self {
        Self {
            settings: *settings,
            window: Window::new(settings),
            timeout: Timeout::new(settings.timeout_least),
            board: Scoreboard::default(),
            next_segment: 0,
            recovery: None,
            usage: Usage::default(),
            paced_until: Instant(0),
            tally: Tally::default(),
        }
    }

    /// When the next timer expires.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let pace = (self.paced_until > now).then_some(self.paced_until);
        [self.timeout.due, pace].into_iter().flatten().min()
    }

    /// Processes an acknowledgement.
    pub fn acknowledge(&mut self, now: Instant, ack: Ack) {
        let advances = ack.expected > self.board.expected;
        let Answered { segments: acked, sent_at } =
            self.board.answer(ack.from, ack.until, ack.expected);
        if let Some(sent_at) = sent_at {
            self.timeout.sample(now - sent_at);
        }
        if acked > 0 {
            self.timeout.restart(now, self.board.in_flight > 0);
        }
        let finds_loss = self.board.find_lost();
        self.recovery = self.recovery.filter(|recovery| self.board.expected < recovery.end);
        if let Some(recovery) = &mut self.recovery {
            recovery.acknowledge(acked, self.board.in_flight, advances && !finds_loss);
        } else if finds_loss || ack.congested {
            let before = self.window.segments;
            self.window.reduce();
            let after = self.window.segments;
            self.recovery = Some(Recovery::new(self.next_segment, before, after));
            self.tally.reductions += 1;
        } else if let Some(sent_at) = sent_at
            && self.usage.allows_growth(self.window.segments, self.window.is_slow_start())
        {
            self.window.grow(Answer {
                now,
                acked,
                rtt: now - sent_at,
                smooth: self.timeout.round_trip(),
                answered: ack.until,
                next: self.board.next_transmission,
            });
        }
        self.usage.acknowledge(ack.until, self.board.next_transmission);
        self.note_open(now);
    }

    /// Handles a retransmission timeout that is due.
    pub fn wake(&mut self, now: Instant) {
        if self.timeout.due.is_none_or(|due| due > now) {
            return;
        }
        self.window.collapse(!self.timeout.is_repeated());
        self.timeout.expire();
        self.recovery = None;
        self.tally.timeouts += 1;
        self.board.lose_all();
        self.note_open(now);
    }

    /// The next train to send now, if any.
    pub fn send(&mut self, now: Instant) -> Option<Packet<Segment>> {
        let room = self.room();
        self.usage.note(self.board.in_flight, room == 0);
        if room == 0 || self.paced_until > now {
            return None;
        }
        let (first, count) = self.next_stretch(room.min(self.train()))?;
        let transmission = self.board.send(now, first, count);
        if let Some(recovery) = &mut self.recovery {
            recovery.send(count);
        }
        self.timeout.start(now);
        let Settings { mss_bytes, header_bytes, ecn, .. } = self.settings;
        // `train` limits a train to a length that fits.
        let payload_bytes = u32::try_from(count * u64::from(mss_bytes)).unwrap_or(u32::MAX);
        let length = Length::train(header_bytes, payload_bytes, mss_bytes);
        if let Some(rate) = self.settings.pacing {
            let time = u128::from(length.bytes()) * BIT_NS / u128::from(rate.0);
            self.paced_until = now + Nanos(u64::try_from(time).unwrap_or(u64::MAX));
        }
        let mut packet = Packet::new(Segment::Data { transmission, first }, length);
        packet.ecn = if ecn { Ecn::Capable0 } else { Ecn::NotCapable };
        Some(packet)
    }

    /// Segments that may be sent now.
    fn room(&self) -> u64 {
        let room = match &self.recovery {
            Some(recovery) => recovery.allowed,
            None => (self.window.segments as u64).saturating_sub(self.board.in_flight),
        };
        // If losses have fragmented the trains, waits for room for a whole train.
        let many = self.board.stretches() as u64 >= 2 * self.settings.trains;
        if many && room < self.train() { 0 } else { room }
    }

    /// Segments of a train.
    fn train(&self) -> u64 {
        let longest = u64::from(u32::MAX) / u64::from(self.settings.mss_bytes);
        (self.window.segments as u64).div_ceil(self.settings.trains).clamp(1, longest)
    }

    /// Next segments to send: lost ones first, in order. `None` if the receive window is full.
    fn next_stretch(&mut self, most: u64) -> Option<(u64, u64)> {
        if let Some((first, count)) = self.board.take_lost(most) {
            self.tally.retransmitted += count;
            return Some((first, count));
        }
        let first = self.next_segment;
        let offered = (self.board.expected + self.settings.window_segments()).saturating_sub(first);
        let count = offered.min(most);
        self.next_segment += count;
        (count > 0).then_some((first, count))
    }

    fn note_open(&mut self, now: Instant) {
        if self.tally.open.is_none() && self.window.is_open() {
            self.tally.open = Some(now);
        }
    }
}
